"""The agreement rule through the gateway on the stored answers of ../shared/data, beside the command.

    .venv/bin/python benchmarks/agreement_gateway.py [--data FILE] [--stream]

A scripted client stands for the providers: each model answers a question, named by its row, as recorded.
Printed for each pair of ``agreement.PAIRS`` and each set: share agreed, success minus strong and cost over
strong's by the gateway and by ``evaluate_agreement``. They are equal but for strings with escapes, of which
the data do not say how they were written: in one of the fourteen by one question. Then the gateway's own
milliseconds to the first byte; and the tokens that are written before it, beside those of the strong model
alone (a stream sends its first token at once, a whole answer all of them). No model's speed is in it.
"""

import argparse
import ast
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from agreement import DATA, INSTRUCTIONS, PAIRS
from pointsman.agreement import AgreementPolicy
from pointsman.config import Config
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway.app import Gateway
from pointsman.jsonl import numbered_lines
from pointsman.learning.answers import StoredAnswers, evaluate_agreement, read_answers, read_prices
from pointsman.prices import Prices
from pointsman.stores.ledger import ComparedAnswers, MemoryLedger
from pointsman.upstreams.port import Call, UpstreamSpec
from pointsman.vocabulary import ModelSpec, WireFormat
from pointsman.wire import FORMATS, Reply

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.deciders import ScriptedDecider

CHAT = FORMATS[WireFormat.CHAT]
EVENTS = b"text/event-stream"


class Answered:
    """An answer that is there already (``Exchange``)."""

    def __init__(self, parts: list[bytes], kind: bytes) -> None:
        self.status = 200
        self.headers = [(b"content-type", kind)]
        self._parts = parts

    async def read(self) -> bytes:
        return b"".join(self._parts)

    async def next(self) -> bytes:
        return self._parts.pop(0) if self._parts else b""

    def close(self) -> None:
        pass


class Recorded:
    """One model that answers as recorded (``UpstreamClient``)."""

    def __init__(self, model: str, rows: Sequence[StoredAnswers]) -> None:
        self._model, self._rows = model, rows

    async def send(self, call: Call) -> Answered:
        asked = json.loads(call.body)
        row = self._rows[int(asked["messages"][-1]["content"])]
        found = row.answers[self._model]
        answer = as_written(found.answer, found.value)
        text = "I cannot tell what it is." if answer is None else json.dumps({"answer": answer})
        reply = Reply(id="0", model="m", text=text, output_tokens=1, input_tokens=1, wants_usage=True)
        if asked.get("stream"):
            return Answered([b"".join(CHAT.answer_events(reply))], EVENTS)
        return Answered([CHAT.answer(reply)], b"application/json")

    def close(self) -> None:
        pass


def as_written(answer: str | None, value: str | None) -> str | None:
    """An answer as a model may have written it: quoted where its text form is, else without quotes."""
    if value is None or answer is None or value.startswith("sha256:"):
        return value or answer
    literal = ast.literal_eval(value)
    if not isinstance(literal, str):
        return value
    quote = answer[0] if answer[:1] in {"'", '"'} else ""
    return f"{quote}{literal}{quote}"


async def ask(gateway: Gateway, number: int, *, stream: bool) -> tuple[str, float]:
    """Ask one question; return the model that served and the milliseconds to the first byte of its answer."""
    body: dict[str, Any] = {"model": "auto", "messages": [{"role": "user", "content": str(number)}]}
    raw = json.dumps({**body, "stream": True} if stream else body).encode()
    unread, first, served = [raw], list[float](), ""
    forever = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await forever.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal served
        if message["type"] == "http.response.start":
            served = dict(message["headers"])[b"x-pointsman-model"].decode()
        elif message["body"]:
            first.append(time.perf_counter())

    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(raw))]
    path = "/v1/chat/completions"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    began = time.perf_counter()
    await gateway({**scope, "headers": headers}, receive, send)
    return served, (first[0] - began) * 1e3


async def measure(
    rows: Sequence[StoredAnswers], cheap: tuple[str, str], strong: str, *, stream: bool
) -> tuple[list[str], list[bool], list[float]]:
    """Ask every question. Return who served each, whether both agreed, and the times."""
    names = {"first": cheap[0], "second": cheap[1], "strong": strong}
    ledger = MemoryLedger()
    policy = AgreementPolicy(cheap=("first", "second"), loops=True, share=0.0, disagreements=len(rows) + 1)
    state = build_live_state(
        ScriptedDecider("strong", ledger=ledger),
        Config(
            models={
                name: ModelSpec(name, name, name, input_per_million=1, output_per_million=1) for name in names
            },
            upstreams={name: UpstreamSpec(name, f"http://127.0.0.1:9/{name}") for name in names},
            agreement={"all": policy},
        ),
    )
    for name, model in names.items():
        state.targets[name].upstream.client = Recorded(model, rows)
    gateway, served, times = Gateway(state), [], []
    for number in range(len(rows)):
        who, took = await ask(gateway, number, stream=stream)
        served.append(names[who])
        times.append(took)
    found = [each for record in ledger.records() for each in record.shadows]
    agreed = [isinstance(each, ComparedAnswers) and each.result == "agreed" for each in found]
    return served, agreed, times


def tokens(row: StoredAnswers, model: str) -> float:
    return row.answers[model].chars / 4


def cost(row: StoredAnswers, model: str, prices: Mapping[str, Prices]) -> float:
    asked = row.prompt_chars / 4 + INSTRUCTIONS
    return prices[model].cost(asked, 0, tokens(row, model)) or 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--stream", action="store_true")
    given = parser.parse_args()
    file: Path = given.data
    for first, second, strong in PAIRS:
        models = (first, second, strong)
        rows = read_answers(numbered_lines(file), str(file), models)
        prices = read_prices(file.parent / "prices.json", file.name, models)
        print(f"{first} + {second} -> {strong}")
        for expected in evaluate_agreement(rows, (first, second), strong, prices, instructions=INSTRUCTIONS):
            part = [row for row in rows if row.set == expected.set]
            served, agreed, times = asyncio.run(measure(part, (first, second), strong, stream=given.stream))
            right = fmean(row.answers[who].correct for row, who in zip(part, served, strict=True))
            alone = fmean(row.answers[strong].correct for row in part)

            paid = sum(
                sum(cost(row, model, prices) for model in (models[:2] if same else models))
                for row, same in zip(part, agreed, strict=True)
            )
            waited = fmean(
                max(tokens(row, first), tokens(row, second))
                + (0.0 if same else 1.0 if given.stream else tokens(row, strong))
                for row, same in zip(part, agreed, strict=True)
            )
            usual = 1.0 if given.stream else fmean(tokens(row, strong) for row in part)
            total = sum(cost(row, strong, prices) for row in part)
            print(
                f"  {expected.set:8} n {len(part):4}"
                f"  agreed {fmean(agreed):.4f} (command {expected.agreed.value:.4f})"
                f"  rule - strong {right - alone:+.4f} ({expected.success_minus_strong.value:+.4f})"
                f"  cost {paid / total:.4f} ({expected.cost.value:.4f})"
                f"  gateway {median(times):.2f} ms"
                f"  tokens before the first byte {waited:,.0f} (strong alone {usual:,.0f})"
            )


if __name__ == "__main__":
    main()
