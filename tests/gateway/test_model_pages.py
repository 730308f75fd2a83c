"""``/v1/models`` states context window, output limit and prices, where they are known."""

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from support.servers import gateway

FILE = """
[upstreams.main]
base_url = "demo:"
[models.small]
upstream = "main"
id = "s"
context_window = 8_000
max_output_tokens = 1_000
input_per_million = 0.25
output_per_million = 2
cached_input_per_million = 0.025
[models.large]
upstream = "main"
id = "l"
context_window = 200_000
input_per_million = 3
output_per_million = 15
cache_write_per_million = 3.75
[models.twin]
upstream = "main"
id = "t"
context_window = 150_000
input_per_million = 3
output_per_million = 15
cache_write_per_million = 3.75
[models.local]
upstream = "main"
id = "x"
[models.free]
upstream = "main"
id = "f"
input_per_million = 0
output_per_million = 0
[tiers]
simple = "small"
complex = ["large", "twin"]
reasoning = "local"
[aliases]
"team" = "complex"
"mine-*" = "small"
[server]
port = 0
[ledger]
path = "ledger.sqlite"
"""
CHEAP = {"prompt": "0.00000025", "completion": "0.000002", "input_cache_read": "0.000000025"}
DEAR = {"prompt": "0.000003", "completion": "0.000015", "input_cache_write": "0.00000375"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("models") / "pointsman.toml"
    file.write_text(FILE, encoding="utf-8")
    with gateway(file, {}) as running:
        yield running.url


@pytest.mark.parametrize(
    ("name", "window", "output", "pricing"),
    [
        ("small", 8_000, 1_000, CHEAP),
        ("mine-1", 8_000, 1_000, CHEAP),
        ("large", 200_000, None, DEAR),
        ("complex", 150_000, None, DEAR),  # the smaller window of two; equal prices
        ("team", 150_000, None, DEAR),
        ("medium", 150_000, None, DEAR),  # has no model of its own
        ("simple", 8_000, 1_000, CHEAP),
        ("auto", 8_000, 1_000, None),  # prices differ
        ("pointsman/auto", 8_000, 1_000, None),
        ("local", None, None, None),  # nothing is known: nothing is said
        ("reasoning", None, None, None),
        ("free", None, None, {"prompt": "0", "completion": "0"}),
    ],
)
def test_a_page_states_what_is_known(
    url: str, name: str, window: int | None, output: int | None, pricing: dict[str, str] | None
) -> None:
    page = httpx.get(f"{url}/v1/models/{name}").json()
    assert {page.get(key) for key in ("context_length", "context_window", "max_input_tokens")} == {window}
    assert {page.get(key) for key in ("max_output_tokens", "max_tokens")} == {output}
    assert page.get("pricing") == pricing
    assert None not in page.values()


def test_the_list_has_the_same_entries(url: str) -> None:
    listed: list[dict[str, Any]] = httpx.get(f"{url}/v1/models").json()["data"]
    assert [entry["id"] for entry in listed][-2:] == ["team", "claude-auto"]
    for entry in listed:
        assert httpx.get(f"{url}/v1/models/{entry['id']}").json() == entry


def test_both_official_clients_read_them(url: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        assert client.models.retrieve("small").model_dump()["context_window"] == 8_000
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as other:
        info = other.models.retrieve("small")
        assert (info.max_input_tokens, info.max_tokens) == (8_000, 1_000)
