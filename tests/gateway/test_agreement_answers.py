"""The rule through the gateway is that of ``pointsman eval answers``, on the same stored answers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.agreement import AgreementPolicy, Result
from pointsman.cli import app
from pointsman.gateway.app import Gateway
from pointsman.reports.shadow import agreement_report
from pointsman.stores.ledger import ComparedAnswers, MemoryLedger
from pointsman.upstreams.port import Call
from pointsman.vocabulary import ModelSpec, WireFormat
from pointsman.wire import FORMATS, Reply
from support.deciders import ScriptedDecider
from support.in_process import ask
from support.limited import Reply as Answer
from support.servers import state_for

CHARS, INSTRUCTIONS = 400, 50
#: Prices in dollars per million tokens, of input and output.
PRICES = {"m0": 1.0, "m1": 2.0, "m2": 20.0}


def said(answer: str | None, value: str | None = None, *, correct: bool = False) -> dict[str, Any]:
    return {"answer": answer, "value": value, "correct": correct, "chars": CHARS}


#: What three models answered: equal and right, or wrong, or by value; different; none at all; lists.
ROWS = [
    (said("5.0", correct=True), said("5.0", correct=True), said("5.0", correct=True)),
    (said("6.0"), said("6.0"), said("5.0", correct=True)),
    (said('"x"', "'x'", correct=True), said("x", "'x'", correct=True), said("y", "'y'")),
    (said("1.0"), said("2.0", correct=True), said("2.0", correct=True)),
    (said(None), said(None), said("7.0", correct=True)),
    (said("8.0", correct=True), said(None), said("8.0", correct=True)),
    (said("[1,2]", "[1, 2]", correct=True), said("[1,2]", "[1, 2]", correct=True), said("[12]", "[12]")),
    (said("[1,2]", "[1, 2]", correct=True), said("[12]", "[12]"), said("[1,2]", "[1, 2]", correct=True)),
    (said("b", "'b'"), said("c", "'c'"), said("d", "'d'")),
]


class Stored:
    """Answers as recorded (``UpstreamClient``): the question is the number of its row."""

    def __init__(self, model: int) -> None:
        self._model = model

    async def send(self, call: Call) -> Answer:
        asked = json.loads(call.body)
        row = ROWS[int(asked["messages"][-1]["content"])]
        found = row[self._model]
        text = found["value"] or found["answer"]
        reply = Reply(
            id="0",
            model="m",
            text="I cannot tell what it is." if text is None else f"I worked it out.\nAnswer: {text}",
            input_tokens=CHARS // 4 + INSTRUCTIONS,
            output_tokens=CHARS // 4,
            wants_usage=True,
        )
        wire = FORMATS[WireFormat.CHAT]
        if asked.get("stream"):
            return Answer(200, list(wire.answer_events(reply)), "text/event-stream")
        return Answer(200, [wire.answer(reply)])

    def close(self) -> None:
        pass


@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_finds_what_the_command_finds(tmp_path: Path, stream: bool) -> None:
    names = list(PRICES)
    rows = [
        {
            "set": "all",
            "id": number,
            "prompt_chars": CHARS,
            "answers": dict(zip(names, row, strict=True)),
        }
        for number, row in enumerate(ROWS)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    prices = {name: {"input": price, "output": price} for name, price in PRICES.items()}
    (tmp_path / "prices.json").write_text(json.dumps(prices))
    models = ["--cheap", "m0", "--cheap", "m1", "--strong", "m2"]
    given = [str(tmp_path / "rows.jsonl"), *models, "--instruction-tokens", str(INSTRUCTIONS)]
    told = CliRunner().invoke(app, ["eval", "answers", *given, "--json"])
    [expected] = json.loads(told.output)["sets"]

    ledger = MemoryLedger()
    policy = AgreementPolicy(cheap=("m0", "m1"), loops=True, share=0.0, disagreements=99)
    urls = [f"http://127.0.0.1:9/{name}" for name in names]
    state = state_for(*urls, decider=ScriptedDecider("m2", ledger=ledger), agreement={"all": policy})
    for number, name in enumerate(names):
        state.targets[name].upstream.client = Stored(number)

    async def work() -> list[str]:
        gateway, served = Gateway(state), []
        for number in range(len(ROWS)):
            body = {"model": "auto", "messages": [{"role": "user", "content": str(number)}]}
            more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
            got = await ask(gateway, "/v1/chat/completions", {**body, **more})
            assert got.status == 200
            served.append(got.headers["x-pointsman-model"])
        return served

    served = asyncio.run(work())
    right = [row[names.index(name)]["correct"] for name, row in zip(served, ROWS, strict=True)]
    agreed = [
        entry.result is Result.AGREED
        for record in ledger.records()
        for entry in record.shadows
        if isinstance(entry, ComparedAnswers)
    ]
    assert len(agreed) == len(ROWS)
    assert sum(agreed) / len(ROWS) == pytest.approx(expected["agreed"]["value"], abs=1e-4)
    assert sum(right) / len(ROWS) == pytest.approx(expected["success_rule"]["value"], abs=1e-4)
    priced = {
        name: ModelSpec(name, "up", name, input_per_million=price, output_per_million=price)
        for name, price in PRICES.items()
    }
    [rule] = agreement_report(ledger.records(), priced, {"all": policy}).rules.values()
    assert rule.paid / rule.alone == pytest.approx(expected["cost"]["value"], abs=1e-4)
    assert rule.agreed == sum(agreed)
    assert (rule.by_cheap, rule.would["cheap"]) == (sum(agreed), sum(agreed))
