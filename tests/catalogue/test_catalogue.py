"""The catalogue of models: which entry describes a model, what it fills, and what is refused."""

import json
from datetime import date
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.catalogue import Catalogue, CatalogueEntry, decode, facts, filled, installed, provider_of
from pointsman.catalogue._update import ENTRIES, SHIPPED, encode
from pointsman.errors import ConfigError
from pointsman.vocabulary import ModelSpec

DAY = date(2026, 1, 31)
PRICED = {"input_per_million": 2.0, "output_per_million": 8.0}


def entry(id_: str, provider: str = "", window: int | None = None, **more: object) -> CatalogueEntry:
    return msgspec.convert(
        {"id": id_, "provider": provider, "context_window": window, **more}, CatalogueEntry
    )


def catalogue(*entries: CatalogueEntry, origin: str = "a test") -> Catalogue:
    return Catalogue(entries, as_of=DAY, origin=origin)


@pytest.fixture(autouse=True)
def no_catalogue_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.parametrize(
    ("base_url", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://API.Anthropic.com/v1", "anthropic"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "google"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.openai.com.example.com/v1", ""),  # somebody else's
        ("https://notapi.openai.com/v1", ""),
        ("http://127.0.0.1:11434/v1", ""),
        ("http://[::1/v1", ""),
        ("demo:", ""),
    ],
)
def test_the_provider_is_known_by_its_host(base_url: str, provider: str) -> None:
    assert provider_of(base_url) == provider


@pytest.mark.parametrize(
    ("provider", "id_", "found"),
    [
        ("openai", "gpt-5", 1),
        ("openai", "GPT-5", 1),
        ("openai", "gpt-5-2025-08-07", 1),  # a version of it
        ("openai", "gpt-5-2024-01-01", 2),  # a version that has an entry of its own
        ("openai", "gpt-5-pro", None),  # another model
        ("openai", "gpt-5-turbo-x", 3),  # the longest pattern
        ("openai", "gpt-5-turbo-xl", 4),
        ("anthropic", "gpt-5", None),
        ("", "gpt-5", None),  # a server of one's own may call anything so
        ("anthropic", "claude-sonnet-4-5-20250929", 5),
        ("anthropic", "claude-sonnet-4-5@20250929", 5),
        ("anthropic", "claude-sonnet-4-5-latest", 5),
        ("openrouter", "anthropic/claude-sonnet-4.5", 5),
        ("openrouter", "anthropic/claude-sonnet-4.5:thinking", 5),
        ("openrouter", "openai/gpt-5", 1),
        ("openrouter", "somebody/gpt-5", None),
        ("", "anthropic/claude-sonnet-4-5", 5),  # whoever serves it says what it is
        ("google", "models/gemini-x", 6),
        ("", "llama3:8b", 7),
        ("", "meta-llama/Llama3-8B", None),
        ("openrouter", "meta-llama/llama3:8b", 7),
    ],
)
def test_an_entry_is_found_by_id_then_by_the_longest_pattern(
    provider: str, id_: str, found: int | None
) -> None:
    known = catalogue(
        entry("gpt-5", "openai", 1),
        entry("gpt-5-2024-01-01", "openai", 2),
        entry("gpt-5-turbo-*", "openai", 3),
        entry("gpt-5-turbo-xl*", "openai", 4),
        entry("claude-sonnet-4-5", "anthropic", 5),
        entry("gemini-x", "google", 6),
        entry("llama3:*", "", 7),
    )
    match = known.find(provider, id_)
    assert (match and match.entry.context_window) == found


@pytest.mark.parametrize(
    ("provider", "id_", "price"),
    [
        ("openai", "gpt-5", 2.0),
        ("openrouter", "openai/gpt-5", 2.0),
        ("openrouter", "openai/gpt-5:free", None),
        ("openrouter", "deepseek/deepseek-x", None),  # several sell it
        ("", "openai/gpt-5", None),  # a proxy may charge what it likes
    ],
)
def test_a_price_holds_only_where_the_provider_asks_it(provider: str, id_: str, price: float | None) -> None:
    known = catalogue(
        entry("gpt-5", "openai", 400_000, **PRICED), entry("deepseek-x", "deepseek", 10, **PRICED)
    )
    model = filled(ModelSpec("m", "up", id_), provider, [known])
    assert model.input_per_million == price
    assert model.prices_as_of == (DAY if price else None)
    assert model.context_window is not None


def test_what_the_configuration_says_goes_before_the_catalogue() -> None:
    known = catalogue(entry("gpt-5", "openai", 400_000, max_output_tokens=9, cache_seconds=60, **PRICED))
    own = ModelSpec("m", "up", "gpt-5", context_window=1_000, input_per_million=0.5, output_per_million=1.0)
    model = filled(own, "openai", [known])
    assert (model.context_window, model.max_output_tokens, model.cache_seconds) == (1_000, 9, 60.0)
    assert (model.input_per_million, model.prices_as_of) == (0.5, None)
    found = facts(own, "openai", [known])
    assert found["context_window"].origin == "configuration"
    assert found["max_output_tokens"].origin == "catalogue of 2026-01-31: a test"


def test_prices_of_two_places_are_never_mixed() -> None:
    """They may be in two currencies: one price of one's own, and none comes from the catalogue."""
    known = catalogue(entry("gpt-5", "openai", 1, cached_input_per_million=0.2, **PRICED))
    model = filled(ModelSpec("m", "up", "gpt-5", input_per_million=0.1), "openai", [known])
    assert (model.output_per_million, model.cached_input_per_million) == (None, None)
    assert not model.is_priced


def test_the_first_catalogue_goes_before_the_second() -> None:
    own = catalogue(entry("gpt-5", "openai", 7, **PRICED), origin="mine")
    shipped = catalogue(entry("gpt-5", "openai", 8, cached_input_per_million=0.1, cache_seconds=60, **PRICED))
    found = facts(ModelSpec("m", "up", "gpt-5"), "openai", [own, shipped])
    assert found["context_window"] == (7, "catalogue of 2026-01-31: mine")
    assert found["cache_seconds"].value == 60  # which the first does not say
    assert "cached_input_per_million" not in found  # prices come from one place


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"id": "x", "input_per_million": -1},
            r'models\[0\] "x": `input_per_million`: expected a number of at least 0',
        ),
        ({"id": "x", "cache_write_per_million": -0.1}, r'models\[0\] "x": .*cache_write_per_million'),
        ({"id": "x", "context_window": 0}, r'models\[0\] "x": .*context_window'),
        (
            {"id": "x", "context_window": "8k"},
            r'models\[0\] "x": `context_window`: expected a whole number, got a text',
        ),
        ({"id": "x", "features": ["sight"]}, r'models\[0\] "x": Invalid enum value .*sight'),
        ({"id": "x", "cache_seconds": 0}, r'models\[0\] "x": .*cache_seconds'),
        ({"id": "x", "prise": 1}, r'models\[0\] "x": .*prise'),
        ({"id": ""}, r"models\[0\]"),
        ({"id": "x" * 257}, r"models\[0\].*length <= 256"),
        ({"id": "a*" * 9}, r'"id" has more than 8 wildcards'),
        ({"id": "x", "input_per_million": 1e7}, r'"input_per_million" is above 1,000,000'),
        ({"provider": "openai"}, r"models\[0\]: .*`id`"),
        (3, r"models\[0\]: Expected `object`, got `int`"),
    ],
)
def test_an_entry_that_is_wrong_is_named(model: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decode(json.dumps({"as_of": "2026-01-31", "models": [model]}).encode(), "x.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a catalogue"),
        ("[]", "not a catalogue: Expected `object`"),
        ('{"models": []}', "as_of"),
        ('{"as_of": "yesterday", "models": []}', "as_of"),
        ('{"as_of": "2026-01-31", "models": [], "more": 1}', "more"),
        ('{"as_of": "2026-01-31", "models": [{"id": "a"}, {"id": "A"}]}', 'two entries "a"'),
    ],
)
def test_a_file_that_is_wrong_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decode(text.encode(), "x.json")


def test_a_file_has_so_many_models_at_most() -> None:
    models = [{"id": str(number)} for number in range(ENTRIES + 1)]
    with pytest.raises(ConfigError, match="at most 20,000 models, not 20,001"):
        decode(json.dumps({"as_of": "2026-01-31", "models": models}).encode(), "x.json")


prices = st.none() | st.floats(0, 1e6)


@given(
    st.builds(CatalogueEntry, id=st.text(min_size=1).map(str.lower).filter(bool), input_per_million=prices)
)
def test_a_catalogue_reads_what_it_writes(written: CatalogueEntry) -> None:
    read = decode(encode(catalogue(written)).encode("utf-8", "surrogatepass"), "x.json")
    assert (read.entries[0].input_per_million, read.as_of) == (written.input_per_million, DAY)


def test_the_shipped_catalogue_is_sound() -> None:
    (shipped,) = installed()
    assert decode(SHIPPED.read_bytes(), "models.json").entries == shipped.entries
    for each in shipped.entries:
        assert each.context_window, each.id
        assert each.provider or not each.is_priced, "the price of an open model depends on who serves it"
        if each.input_per_million is not None:
            cached = each.cached_input_per_million
            assert cached is None or cached <= each.input_per_million, each.id
    providers = {each.provider for each in shipped.entries}
    assert providers >= {"openai", "anthropic", "google", "mistral", "deepseek", "xai"}


@pytest.mark.parametrize(
    ("id_", "window"),
    [
        ("qwen3:0.6b", 32_768),
        ("qwen3:8b-q4_K_M", 32_768),
        ("Qwen/Qwen3-8B-AWQ", 32_768),
        ("qwen3-4b-instruct-2507", 262_144),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 262_144),
        ("qwen/qwen3-235b-a22b-2507", 262_144),
        ("qwen3-coder:30b", 262_144),
        ("qwen3:30b", None),  # two generations have this name
        ("qwen3:30b-a3b", None),
        ("qwen2.5:3b", 32_768),
        ("gemma3:1b", 32_768),
        ("gemma3:12b", 131_072),
        ("gemma3n:e4b", 32_768),
        ("google/gemma-3-1b-it", 32_768),
        ("google/gemma-3-12b-it", 131_072),
        ("deepseek-r1:1.5b", 131_072),
        ("deepseek-r1:8b", 131_072),
        ("kimi-k2-instruct", 131_072),
        ("kimi-k2-instruct-0905", 262_144),
        ("Qwen/Qwen2.5-7B-Instruct-1M", 1_010_000),
        ("gradientai/Llama-3-8B-Instruct-Gradient-1048k", None),  # a model of its own: unknown
        ("togethercomputer/Llama-2-7B-32K-Instruct", None),
        ("NousResearch/Yarn-Mistral-7b-128k", None),
        ("mistral-7b-instruct-128k", None),
        ("meta-llama-3.1-8b-instruct-128k", 131_072),
        ("meta-llama-3-8b-instruct-8k", 8_192),
        ("gemma-3-270m-it", 32_768),  # parameters
    ],
)
def test_windows_of_open_models_are_those_of_their_size(id_: str, window: int | None) -> None:
    assert filled(ModelSpec("m", "up", id_), "", installed()).context_window == window


@pytest.mark.parametrize(
    "id_", ["codestral-latest", "devstral-small-latest", "mistral-tiny", "pixtral-large-latest"]
)
def test_a_price_of_cached_input_that_one_source_alone_has_is_not_shipped(id_: str) -> None:
    match = installed()[-1].find("mistral", id_)
    assert match
    assert match.entry.is_priced
    assert match.entry.cached_input_per_million is None


def test_the_users_catalogue_is_read_first_and_a_broken_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config" / "pointsman" / "models.json"
    file.parent.mkdir(parents=True)
    file.write_text(encode(catalogue(entry("gpt-5", "openai", 7), origin="mine")))
    assert next(each.origin for each in installed()) == "mine"
    file.write_text('{"as_of": "2026-01-31", "models": [{"id": "x", "input_per_million": -1}]}')
    with pytest.raises(ConfigError, match=r'models\.json: models\[0\] "x"'):
        installed()
