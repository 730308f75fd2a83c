"""A shadow model whose upstream speaks another format than the caller's: it is asked in its own."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from pointsman.config import ShadowSpec
from pointsman.stores.ledger import MemoryLedger, ShadowAnswer
from pointsman.vocabulary import WireFormat
from support.deciders import ScriptedDecider
from support.servers import Asked, ScriptedUpstream, gateway, reply, state_for
from support.translation import CALLS, CHAT, MESSAGES, SAMPLES, TEXT
from support.waiting import until

pytestmark = pytest.mark.integration

PAIRS = [(caller, other) for caller in SAMPLES for other in SAMPLES if caller is not other]


def upstream(wire: WireFormat, *, calls: bool) -> ScriptedUpstream:
    """Answers in one format, whole or streamed, only to what is asked in it."""

    async def answer(asked: Asked, send: Any) -> None:
        spoken = SAMPLES[wire]
        assert asked.path == spoken.path
        if json.loads(asked.body).get("stream"):
            content = ("content-type", "text/event-stream")
            await reply(send, 200, b"".join(spoken.events(calls)), content)
        else:
            await reply(send, 200, json.dumps(spoken.answer(calls)).encode())

    return ScriptedUpstream(answer)


def shadow(
    caller: WireFormat, other: WireFormat, body: dict[str, Any]
) -> tuple[ShadowAnswer, ScriptedUpstream]:
    """What is kept of the shadow model's answer to one request, whose caller has got a text."""
    first, second = upstream(caller, calls=False), upstream(other, calls=True)
    ledger = MemoryLedger()
    with first.running() as one, second.running() as two:
        state = state_for(
            f"{one}/v1",
            f"{two}/v1",
            decider=ScriptedDecider("m0", ledger=ledger),
            shadow_model=ShadowSpec(model="m1", share=1.0, text="redacted"),
            formats=[frozenset({caller}), frozenset({other})],
        )
        with gateway(state) as running:
            got = httpx.post(running.url + SAMPLES[caller].path, json=body, timeout=60)
            assert got.status_code == 200
            assert "x-pointsman-translated" not in got.headers  # the caller's own answer is native
            until(lambda: ledger.shadows("d-1"))
    [found] = ledger.shadows("d-1")
    assert isinstance(found, ShadowAnswer)
    return found, second


@pytest.mark.parametrize(("caller", "other"), PAIRS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_it_is_asked_and_understood_in_its_own_format(
    caller: WireFormat, other: WireFormat, stream: bool
) -> None:
    kept, second = shadow(caller, other, {**SAMPLES[caller].request(), "stream": stream})
    assert (kept.model, kept.status, kept.error) == ("m1", 200, "")
    assert kept.said.tools == tuple(name for _, name, _ in CALLS)
    assert (kept.beside_text, kept.text) == (TEXT, "")
    assert kept.output_tokens == 7
    [asked] = second.asked
    sent = json.loads(asked.body)
    assert sent["model"] == "model-1"
    assert json.dumps(sent).count("Weather in Bonn?") == 1


def test_what_cannot_be_translated_is_counted_and_asks_nobody() -> None:
    body = {**SAMPLES[CHAT].request(), "logit_bias": {"1": 1}}
    kept, second = shadow(CHAT, MESSAGES, body)
    assert (kept.error, kept.status, second.asked) == ("translation", 0, [])
