"""What the gateway does not know reaches the upstream byte for byte; only the model's name differs."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS
from support.requests_by_format import PATHS, WORDS, answer, format_of, request
from support.servers import Asked, ScriptedUpstream, gateway, reply, state_for

pytestmark = pytest.mark.integration

#: Anything JSON can hold. Numbers as texts, because how they are written must survive too.
NUMBERS = st.sampled_from(["0", "-0.0", "1e5", "1E+400", "0.10", "12345678901234567890123", "1.0000000001"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SPACES = st.sampled_from(["", " ", "\n  ", "\t"])


def quoted(text: str, *, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)


SCALARS = st.one_of(
    NUMBERS,
    st.sampled_from(["null", "true", "false", '"\\ud83d\\ude00"', '"\\/\\u0041"', '"half \\ud83d"']),
    st.builds(quoted, TEXTS, ascii_only=st.booleans()),
)


def listed(values: list[str], space: str) -> str:
    return "[" + f",{space}".join(values) + space + "]"


def membered(values: dict[str, str], space: str) -> str:
    return (
        "{" + f"{space},".join(f"{json.dumps(name)}{space}:{value}" for name, value in values.items()) + "}"
    )


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(listed, st.lists(inner, max_size=3), SPACES),
        st.builds(membered, st.dictionaries(TEXTS, inner, max_size=3), SPACES),
    ),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(TEXTS.map("x-".__add__), VALUES, max_size=4)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[WireFormat, str, str]:
    """A format, and a request in it before and after the model's name."""
    wire = draw(st.sampled_from(WireFormat))
    said = json.dumps(WORDS) if wire is WireFormat.RESPONSES else (
        f'[{{"role": "user", "content": {json.dumps(WORDS)}, "x-mine": {draw(VALUES)}}}]'
    )  # fmt: skip
    members = [f"{json.dumps(FORMATS[wire].items)}: {said}"]
    members += [f"{json.dumps(name)}:{value}" for name, value in draw(UNKNOWN).items()]
    members = draw(st.permutations(members))
    space, place = draw(SPACES), draw(st.integers(0, len(members)))
    before = "".join(f"{member},{space}" for member in members[:place])
    after = "".join(f"{space},{member}" for member in members[place:])
    return wire, f'{{{space}{before}"model":{space}"', f'"{after}{space}}}'


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[ScriptedUpstream, httpx.Client]]:
    async def answering(asked: Asked, send: Any) -> None:
        await reply(send, 200, answer(format_of(asked.path)))

    upstream = ScriptedUpstream(answering)
    with (
        upstream.running() as url,
        gateway(state_for(f"{url}/v1")) as running,
        httpx.Client(base_url=running.url, trust_env=False, verify=False) as client,
    ):
        yield upstream, client


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(body=bodies())
def test_only_the_model_name_differs(
    served: tuple[ScriptedUpstream, httpx.Client], body: tuple[WireFormat, str, str]
) -> None:
    upstream, client = served
    wire, before, after = body
    sent = (before + "auto" + after).encode()
    got = client.post(PATHS[wire], content=sent, headers={"content-type": "application/json"})
    assert got.status_code == 200, got.text
    assert upstream.asked[-1].body == (before + "model-0" + after).encode()


@pytest.mark.parametrize("wire", WireFormat)
def test_headers_and_query_we_do_not_know_go_on_too(
    served: tuple[ScriptedUpstream, httpx.Client], wire: WireFormat
) -> None:
    upstream, client = served
    sent = {"content-type": "application/json", "x-openai-new-feature": "a; b", "anthropic-beta": "one,two"}
    body = json.dumps(request(wire)).encode()
    got = client.post(f"{PATHS[wire]}?beta=true&x=%20y", content=body, headers=sent)
    assert got.status_code == 200
    asked = upstream.asked[-1]
    assert asked.path == f"{PATHS[wire]}?beta=true&x=%20y"
    assert asked.headers["x-openai-new-feature"] == "a; b"
    assert asked.headers["anthropic-beta"] == "one,two"
    assert asked.body == body.replace(b'"auto"', b'"model-0"')


def test_a_stored_prompt_may_name_no_model(served: tuple[ScriptedUpstream, httpx.Client]) -> None:
    upstream, client = served
    body = b'{"prompt": {"id": "pmpt_1"}}'
    got = client.post("/v1/responses", content=body, headers={"content-type": "application/json"})
    assert got.status_code == 200
    assert upstream.asked[-1].body == b'{"model":"model-0",' + body[1:]
