"""Every question to a model is paid for by the key whose request causes it, and only to models it may use."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pointsman.config import ShadowSpec, load
from pointsman.factory import build_asked_model, build_engine, build_policy
from pointsman.gateway._live_state import LiveState
from pointsman.gateway._shadow_model import ShadowModel, ShadowUsage
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.model_calls import ask_models, build_questions
from pointsman.runtime import Runtime
from pointsman.stores.budgets import Settlement, SqliteBudgets
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.upstreams import ModelAnswer
from pointsman.upstreams.port import hash_key
from pointsman.vocabulary import Prompt
from pointsman.wire.conversation import Usage
from support.in_process import Received, ask
from support.limited import CHAT, Trial, flushed
from support.servers import Asked, ScriptedUpstream, reply

PATIENCE = 60.0
UNIT = 1_000_000_000
#: The judge is "large": an output token costs a hundredth, a question at most 16 of them.
VERIFY = """
[tiers.verify]
model = "large"
share = 1.0
"""
ALICE = "[keys.alice]\n"


class Judge:
    """A model that counts what it is asked, and says what it used."""

    def __init__(self) -> None:
        self.asked = 0
        self.usage: Usage | None = Usage(10, None, 2)

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        return (await self.ask(prompt, timeout=timeout)).text

    async def ask(self, prompt: Prompt, *, timeout: float) -> ModelAnswer:
        del prompt, timeout
        self.asked += 1
        return ModelAnswer("SIMPLE", self.usage)


class Judged(Trial):
    """A gateway whose decisions ask a judge about every request."""

    def __init__(self, text: str, **more: Any) -> None:
        self.judge = Judge()
        super().__init__(text + VERIFY, **more)

    def state(self, runtime: Any) -> LiveState:
        policy = build_policy(self.config)
        judged = Runtime(
            build_engine(policy),
            sessions=MemorySessions(),
            ledger=MemoryLedger() if runtime is None else self.ledger,
            ask=ask_models({"large": self.judge}, default="large"),
            questions=build_questions(policy),
        )
        return dataclasses.replace(super().state(judged), asked_model=build_asked_model(self.config))

    async def send(self, path: str, number: int, key: str = "alice") -> Received:
        """Send a request that no answer is remembered of."""
        message = {"role": "user", "content": f"let us see about {number}"}
        return await self.ask(path, {**CHAT, "model": "auto", "messages": [message]}, key)


def run(work: Awaitable[Any]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(work, PATIENCE)

    return asyncio.run(limited())


async def _all(trial: Judged, path: str, count: int) -> list[int]:
    return [(await trial.send(path, number)).status for number in range(count)]


CHATS = "/v1/chat/completions"
DECIDE = "/v1/decide"


def test_a_judge_is_asked_and_paid_for_by_the_key() -> None:
    trial = Judged(ALICE + "budget = { money = 10 }\n")
    assert run(_all(trial, DECIDE, 3)) == [200, 200, 200]
    assert trial.judge.asked == 3
    assert trial.used("money/key/alice") == 3 * 0.02 * UNIT  # two output tokens of "large"
    assert trial.metric('pointsman_spent_total{key="alice",team=""} 0.06')
    assert trial.held == 0


def test_a_judge_that_reports_no_usage_costs_what_was_reserved() -> None:
    trial = Judged(ALICE + "budget = { money = 10 }\n")
    trial.judge.usage = None
    run(_all(trial, DECIDE, 1))
    most = build_policy(trial.config).profile.verification.max_tokens
    assert trial.used("money/key/alice") == most * 0.01 * UNIT


@pytest.mark.parametrize("path", [CHATS, DECIDE])
@pytest.mark.parametrize(
    "limit", ["budget = { money = 0.05 }\n", 'team = "ml"\n[teams.ml]\nbudget = { money = 0.05 }\n']
)
def test_a_spent_budget_asks_no_judge(limit: str, path: str) -> None:
    """Before, 20 of 20 refused chats and 20 of 20 decisions asked it."""
    trial = Judged(ALICE + limit)
    assert run(trial.chat()).status == 200  # a model by name: 0.05, and nobody is asked
    before = trial.judge.asked
    assert run(_all(trial, path, 20)) == [429] * 20
    assert trial.judge.asked == before
    assert len(trial.provider.asked) == 1


@pytest.mark.parametrize("path", [CHATS, DECIDE])
def test_what_another_process_holds_of_a_budget_comes_back(tmp_path: Path, path: str) -> None:
    """Once full, a budget was refused until the end of its window: nobody asked the store again."""
    trial = Judged(ALICE + "budget = { money = 0.1 }\n", store=SqliteBudgets(tmp_path / "budgets.sqlite"))
    other = SqliteBudgets(tmp_path / "budgets.sqlite")
    access = trial.gateway.state.access
    assert access is not None
    claim = access.grants["alice"].limits[0].claim(UNIT // 20, trial.now)
    other.join("other")
    assert other.reserve("other-1", [claim]).ok
    assert run(trial.chat()).status == 200  # the other half
    flushed(trial.budgets)
    refused = run(trial.send(path, 1))
    other.settle([Settlement("other-1", {claim.counter: 0})])
    assert (refused.status, refused.headers["retry-after"]) == (429, "10")
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert run(trial.send(path, 2)).status == 200


@pytest.mark.parametrize("path", [CHATS, DECIDE])
def test_a_budget_with_no_room_for_the_question_asks_no_judge(path: str) -> None:
    trial = Judged(ALICE + "budget = { money = 0.01 }\n")
    found = run(_all(trial, path, 20))
    assert found == ([429] * 20 if path == CHATS else [200] * 20)
    assert trial.judge.asked == 0


@pytest.mark.parametrize("path", [CHATS, DECIDE])
def test_a_judge_that_the_key_may_not_use_is_not_asked(path: str) -> None:
    trial = Judged(f'{ALICE}models = ["small", "backup"]\n[keys.bob]\n')
    assert run(_all(trial, path, 20)) == [200] * 20
    assert trial.judge.asked == 0
    run(trial.send(path, 21, "bob"))
    assert trial.judge.asked == 1


def test_a_question_counts_tokens_and_no_request() -> None:
    trial = Judged(ALICE + "requests_per_minute = 3\ntokens_per_minute = 100000\n")
    assert run(_all(trial, DECIDE, 4)) == [200, 200, 200, 429]
    assert trial.used("requests/key/alice") == 3
    assert trial.used("tokens/key/alice") == 3 * 12


def test_refused_questions_use_up_nothing_of_the_operators_budget() -> None:
    trial = Judged(f'{ALICE}models = ["small", "backup"]\n[keys.bob]\n')
    run(_all(trial, DECIDE, 20))
    runtime = trial.gateway.state.runtime
    assert isinstance(runtime, Runtime)
    assert runtime.questions.spending.asked == 0


def test_explain_asks_nobody() -> None:
    trial = Judged(ALICE + "budget = { money = 10 }\n")
    assert run(_all(trial, "/v1/explain", 2)) == [200, 200]
    assert trial.judge.asked == 0


class Shadowed(Trial):
    """A gateway that sends every request to "large" too."""

    def state(self, runtime: Any) -> LiveState:
        state = super().state(runtime)
        spec = ShadowSpec(model="large", share=1.0)
        return dataclasses.replace(
            state, shadow_model=ShadowModel(spec, state.targets["large"], ShadowUsage())
        )

    async def served(self) -> int:
        """Send one request, and wait for what is done beside it."""
        status = (await self.chat()).status
        shadow = self.gateway.state.shadow_model
        assert shadow is not None
        while shadow.usage.under_way:
            await asyncio.wait(shadow.usage.under_way)
        return status


@pytest.mark.parametrize(
    ("limits", "used", "result"),
    [
        ("budget = { money = 10 }\n", 0.55, "ok"),  # 50 tokens of "small", and of "large"
        ("budget = { money = 0.5 }\n", 0.05, "skipped: budget"),
        ('budget = { money = 10 }\nmodels = ["small"]\n', 0.05, "skipped: not permitted"),
    ],
    ids=["paid", "no-room", "not-permitted"],
)
def test_a_shadow_model_is_paid_for_and_permitted(limits: str, used: float, result: str) -> None:
    trial = Shadowed(ALICE + limits + "requests_per_minute = 9\n")
    assert run(trial.served()) == 200
    assert trial.used("money/key/alice") == round(used * UNIT)
    assert trial.used("requests/key/alice") == 1
    assert trial.metric(f'pointsman_shadow_answers_total{{model="large",result="{result}"}} 1.0')
    assert len(trial.provider.asked) == (2 if result == "ok" else 1)
    assert trial.held == 0


def test_the_judge_of_a_running_gateway_is_not_asked_for_a_spent_key(tmp_path: Path) -> None:
    """From the operator's file to the judge's own upstream, over HTTP."""

    async def answer(asked: Asked, send: Any) -> None:
        said = {"role": "assistant", "content": "SIMPLE"}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        used = {"prompt_tokens": 10, "completion_tokens": 50}
        body = {"id": "1", "object": "chat.completion", "choices": [choice], "usage": used}
        await reply(send, 200, json.dumps(body).encode())

    upstream = ScriptedUpstream(answer)
    price = "input_per_million = 0, output_per_million = 1000"
    with upstream.running() as url, closing_builder(tmp_path, url, price) as gateway:
        headers = {"authorization": "Bearer alice"}

        def chat(number: int, model: str = "auto") -> dict[str, object]:
            said = {"role": "user", "content": f"let us see about {number}"}
            return {"model": model, "max_tokens": 50, "messages": [said]}

        async def work() -> list[int]:
            found = [(await ask(gateway, CHATS, chat(0, "small"), headers)).status]
            for path in (CHATS, DECIDE):
                found += [(await ask(gateway, path, chat(n), headers)).status for n in range(20)]
            gateway.state.close()  # connections belong to this loop
            await asyncio.sleep(0)
            return found

        assert run(work()) == [200] + [429] * 40
    assert [json.loads(each.body)["model"] for each in upstream.asked] == ["s"]


@contextmanager
def closing_builder(folder: Path, url: str, price: str) -> Iterator[Gateway]:
    file = folder / "pointsman.toml"
    file.write_text(f"""
        [upstreams.main]
        base_url = "{url}/v1"
        [models]
        small = {{ upstream = "main", id = "s", {price} }}
        judge = {{ upstream = "main", id = "j", {price} }}
        [tiers]
        simple = "small"
        [tiers.verify]
        model = "judge"
        share = 1.0
        [ledger]
        path = "ledger.sqlite"
        [access]
        path = "budgets.sqlite"
        [keys.alice]
        sha256 = "{hash_key("alice").hex()}"
        budget = {{ money = 0.05, per = "month" }}
    """)
    builder = Builder(lambda: load(file), file)
    gateway = Gateway(builder())
    try:
        yield gateway
    finally:
        gateway.stop()
        builder.close()
