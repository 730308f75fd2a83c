"""Which clients work with a configuration: each reason why not, and near misses."""

from collections.abc import Mapping
from typing import Any

import pytest

from pointsman.config import Config, TiersSpec
from pointsman.diagnostics.clients import CLIENTS, Verdict, describe_verdict, judge_clients
from pointsman.upstreams.port import DEMO_URL, ServerSpec, UpstreamSpec, hash_key
from pointsman.vocabulary import Feature, ModelSpec, WireFormat

ALL = frozenset(WireFormat)
CHAT = frozenset({WireFormat.CHAT})
TOOLS: frozenset[Feature] = frozenset({"tools"})
SEES: frozenset[Feature] = frozenset({"vision"})


def judged(
    *models: ModelSpec,
    tiers: Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
    **server: Any,
) -> dict[str, Verdict]:
    config = Config(
        upstreams={"up": UpstreamSpec("up", DEMO_URL)},
        models={model.name: model for model in models},
        tiers=TiersSpec(**({"simple": models[0].name} if tiers is None else tiers)),
        server=ServerSpec(**server),
        aliases=dict(aliases or {}),
    )
    return {verdict.client.name: verdict for verdict in judge_clients(config)}


def model(name: str = "m", **given: Any) -> ModelSpec:
    return ModelSpec(name, "up", name, **given)


SDKS = {"curl", "OpenAI SDK, chat", "OpenAI SDK", "Anthropic SDK", "aider"}
AGENTS = {"Claude Code", "Codex", "opencode", "Qwen Code", "Cline"}


@pytest.mark.parametrize(
    ("given", "working"),
    [
        (model(), SDKS | AGENTS),
        (model(formats=CHAT, translated=ALL - CHAT), SDKS | AGENTS),
        (model(formats=CHAT), {"curl", "OpenAI SDK, chat", "opencode", "Qwen Code", "aider", "Cline"}),
        (model(features=TOOLS), SDKS | AGENTS),
        (model(features=SEES), SDKS),
        (model(context_window=9_000), SDKS | AGENTS),
        (model(context_window=4_096), SDKS),
    ],
)
def test_what_a_model_must_have(given: ModelSpec, working: set[str]) -> None:
    assert {name for name, verdict in judged(given).items() if verdict.fits} == working


def test_why_and_the_way_out() -> None:
    codex = judged(model(formats=CHAT))["Codex"]
    assert describe_verdict(codex) == 'does not work: "m" does not speak responses'
    assert codex.hint == "translate = true under [upstreams.up]"
    blind = judged(model(features=SEES))["Claude Code"]
    assert (blind.detail, blind.hint) == (
        '"m" has no tools',
        "a model with tools: Claude Code offers them in every request",
    )
    small = judged(model(context_window=4_096))["opencode"]
    assert "8750 tokens do not fit its context window of 4096" in small.detail


def test_how_it_is_served() -> None:
    native = judged(model())["Codex"]
    assert describe_verdict(native) == "configured, not tried: responses, as the upstream speaks it"
    translated = judged(model(formats=CHAT, translated=ALL - CHAT))["Codex"]
    assert describe_verdict(translated) == "configured, not tried: responses, translated for m"


@pytest.mark.parametrize(
    ("base_url", "is_ollama"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://gpu.lan:11434", True),
        ("http://127.0.0.1:8000/v1", False),
        ("https://api.example.com/v1", False),
    ],
)
def test_agents_are_warned_of_the_window_of_ollama(base_url: str, *, is_ollama: bool) -> None:
    given = model()
    config = Config(
        upstreams={"up": UpstreamSpec("up", base_url)},
        models={"m": given},
        tiers=TiersSpec(simple="m"),
    )
    verdicts = {verdict.client.name: verdict for verdict in judge_clients(config)}
    said = 'needs OLLAMA_CONTEXT_LENGTH of 32,768 or more at "up" (default: 4,096)'
    assert verdicts["Claude Code"].warning == (said if is_ollama else "")
    assert verdicts["curl"].warning == ""


def test_a_tier_whose_models_cannot_serve_is_a_warning() -> None:
    tiers = {"simple": "small", "reasoning": "large"}
    verdict = judged(model("small"), model("large", formats=CHAT), tiers=tiers)["Claude Code"]
    assert verdict.fits
    assert verdict.warning == "no model of REASONING can serve it, so another tier does"


def test_without_tiers_nothing_works() -> None:
    verdicts = judged(model(), tiers={})
    assert not any(verdict.fits for verdict in verdicts.values())
    assert verdicts["curl"].detail == "[tiers] names no model"


@pytest.mark.parametrize(
    ("server", "works"),
    [({}, False), ({"host": "0.0.0.0"}, False), ({"host": "0.0.0.0", "keys": (hash_key("k"),)}, True)],
)
def test_cursor_calls_from_elsewhere(server: dict[str, Any], works: bool) -> None:
    assert judged(model(), **server)["Cursor"].fits == works


def test_every_client_has_a_name_of_its_own() -> None:
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)


@pytest.mark.parametrize(
    ("aliases", "warned"),
    [({}, False), ({"*": "refuse"}, True), ({"*haiku*": "simple", "*": "refuse"}, False)],
)
def test_a_name_that_a_client_asks_for_by_itself_and_that_is_refused(
    aliases: dict[str, str], warned: bool
) -> None:
    verdict = judged(model(), aliases=aliases)["Claude Code"]
    assert verdict.fits
    assert ('[aliases] refuses "claude-haiku-' in verdict.warning) == warned
    assert judged(model(), aliases=aliases)["curl"].warning == ""


def test_each_model_of_a_tier_counts() -> None:
    """The first of a list cannot serve, the second does."""
    verdict = judged(model("a", formats=CHAT), model("b"), tiers={"simple": ("a", "b")})["Codex"]
    assert (verdict.fits, verdict.warning) == (True, "")
