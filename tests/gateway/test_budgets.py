"""Budgets and rate limits: the ten ways in which they fail elsewhere, and many requests at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pointsman.access import Budgets
from pointsman.config import Config, examine
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.stores.budgets import (
    SHARE_SECONDS,
    BudgetStore,
    Claim,
    MemoryBudgets,
    Settlement,
    SqliteBudgets,
    ValkeyBudgets,
)
from pointsman.upstreams.port import DEMO_URL, hash_key
from support import limited
from support.engines import Valkey
from support.in_process import Received, ask
from support.limited import CHAT, HARD, Reply, Trial, broken, flushed, stream, whole
from support.translation import MESSAGES, SAMPLES

#: Money is counted in billionths.
UNIT = 1_000_000_000
PATIENCE = 60.0
ALICE = "[keys.alice]\n"


def run(work: Awaitable[Any]) -> Any:
    """Run a test's requests; a gateway that answers nobody fails it."""

    async def limited() -> Any:
        return await asyncio.wait_for(work, PATIENCE)

    return asyncio.run(limited())


def money(amount: float, per: str = "day") -> str:
    return f'budget = {{ money = {amount}, per = "{per}" }}\n'


async def statuses(trial: Trial, count: int, **members: Any) -> list[int]:
    return [(await trial.chat(**members)).status for _ in range(count)]


# The ten ways.


def test_streams_count() -> None:
    """1: ignored on streams."""
    trial = Trial(ALICE + money(0.1))
    trial.provider.answers = [lambda: stream(30, usage=30), lambda: stream(40)]
    assert run(statuses(trial, 2, stream=True)) == [200, 200]
    assert trial.used("money/key/alice/day") == pytest.approx(
        0.070 * UNIT, rel=0.2
    )  # the second is estimated
    assert run(statuses(trial, 1, stream=True)) == [429]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("more", "output"),
    [
        ({"total_tokens": 40}, 30),  # Google
        ({"total_tokens": 40, "completion_tokens_details": {"reasoning_tokens": 20}}, 30),  # xAI
        ({"total_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 5}}, 10),  # OpenAI
        ({"total_tokens": 40, "prompt_tokens_details": {"cached_tokens": 20}}, 10),  # input counted apart
        (
            {
                "total_tokens": 40,
                "prompt_tokens_details": {"cached_tokens": 15, "cache_write_tokens": 5},
            },
            10,
        ),
        (
            {
                "total_tokens": 25,
                "prompt_tokens_details": {"cached_tokens": 15, "cache_write_tokens": 5},
            },
            10,  # a gateway that adds what it wrote to the total
        ),
        ({"total_tokens": 404, "prompt_audio_seconds": 5}, 10),  # Mistral
        ({"total_tokens": True}, 10),
    ],
)
def test_reasoning_counted_in_the_total_alone_is_paid_for(
    more: dict[str, Any], output: int, *, is_stream: bool
) -> None:
    used = {"prompt_tokens": 10, "completion_tokens": 10, **more}
    said = {"index": 0, "message": {"content": "hi"}, "delta": {"content": "hi"}, "finish_reason": "stop"}
    body = json.dumps({"id": "1", "choices": [said], "usage": used}).encode()
    parts = [b"data: %s\n\n" % body, b"data: [DONE]\n\n"] if is_stream else [body]
    trial = Trial(ALICE + money(1))
    trial.provider.answers = [
        lambda: Reply(200, parts, "text/event-stream" if is_stream else "application/json")
    ]
    assert run(statuses(trial, 1, stream=is_stream)) == [200]
    assert trial.used("money/key/alice/day") == output * UNIT // 1000


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_usage_in_the_choice_that_ends_a_stream_is_paid_for(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moonshot reports it there, and nowhere else to a caller that does not ask for it."""
    only = limited._BASE.replace("retries = 0\n", 'retries = 0\nformats = ["chat"]\n')
    monkeypatch.setattr(limited, "_BASE", only)
    used = {"prompt_tokens": 1336, "completion_tokens": 31, "total_tokens": 1367, "cached_tokens": 1280}
    first = {"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": used}
    parts = [
        *(b"data: %s\n\n" % json.dumps({"id": "1", "choices": [each]}).encode() for each in (first, last)),
        b"data: [DONE]\n\n",
    ]
    trial = Trial(ALICE + money(1))
    trial.provider.answers = [lambda: Reply(200, list(parts), "text/event-stream")]
    answer = run(trial.ask(path, {**CHAT, "stream": True}))
    [attempt] = trial.ledger.attempts(answer.headers["x-pointsman-decision-id"])
    assert (attempt.input_tokens, attempt.cached_tokens, attempt.output_tokens) == (1336, 1280, 31)
    assert trial.used("money/key/alice/day") == 31 * UNIT // 1000


@pytest.mark.parametrize(
    ("price", "written", "billed"),
    [
        (None, {"cache_write_tokens": 6}, 0.010),
        (1250.0, {"cache_write_tokens": 6}, 0.0115),  # OpenAI, OpenRouter
        (1250.0, {"cache_write_tokens": 0, "cache_creation_tokens": 6}, 0.0115),  # LiteLLM
        (1250.0, {"cache_creation_input_tokens": 6}, 0.0115),  # Alibaba
        (1250.0, {"cache_creation_input_tokens": -6, "cache_creation": 6}, 0.010),
        (
            1250.0,
            {"cache_write_tokens": 6, "cache_creation_token_details": {"ephemeral_1h_input_tokens": 6}},
            0.016,  # LiteLLM, for an hour
        ),
    ],
)
def test_what_a_provider_writes_to_its_cache_is_paid_for(
    price: float | None, written: dict[str, Any], billed: float
) -> None:
    trial = Trial(ALICE + money(1))
    prices = {"input": 1000.0, "output": 0.0, "cached_input": 0.0, "cache_write": price}
    small = replace(
        trial.config.models["small"], **{f"{name}_per_million": each for name, each in prices.items()}
    )
    trial.config = replace(trial.config, models={**trial.config.models, "small": small})
    trial.gateway.replace(trial.state(trial.gateway.state.runtime))
    details = {"cached_tokens": 20, **written}
    used = {"prompt_tokens": 30, "completion_tokens": 1, "prompt_tokens_details": details}
    said = {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}
    body = json.dumps({"id": "1", "choices": [said], "usage": used}).encode()
    trial.provider.answers = [lambda: Reply(200, [body])]
    assert run(statuses(trial, 1)) == [200]
    assert trial.used("money/key/alice/day") == pytest.approx(billed * UNIT)


@pytest.mark.parametrize("is_for_an_hour", [False, True])
@pytest.mark.parametrize("is_left", [False, True])
def test_what_was_written_to_a_cache_is_paid_for_if_the_stream_does_not_end(
    monkeypatch: pytest.MonkeyPatch, *, is_left: bool, is_for_an_hour: bool
) -> None:
    """The provider reports it first, and bills it whoever breaks off."""
    other = limited._BASE.replace("retries = 1\n", 'retries = 1\nformats = ["messages"]\n')
    prices = "input_per_million = 1000, cache_write_per_million = 1250, output_per_million = 0"
    monkeypatch.setattr(
        limited,
        "_BASE",
        other.replace('id = "b", input_per_million = 0, output_per_million = 1000', f'id = "b", {prices}'),
    )
    trial = Trial(ALICE + money(1))
    used: dict[str, Any] = {"input_tokens": 400, "cache_creation_input_tokens": 600, "output_tokens": 1}
    if is_for_an_hour:
        used["cache_creation"] = {"ephemeral_1h_input_tokens": 200}
    message = {"id": "1", "type": "message", "role": "assistant", "model": "b", "content": [], "usage": used}
    begin = (
        b"event: message_start\ndata: %s\n\n"
        % json.dumps({"type": "message_start", "message": message}).encode()
    )
    reply = Reply(200, [begin], "text/event-stream")
    trial.provider.answers = [lambda: reply]

    async def work() -> None:
        reply.waits = asyncio.Event() if is_left else None
        asked = asyncio.create_task(trial.chat(model="backup", stream=True))
        if reply.waits is not None:
            await reply.waits.wait()
            asked.cancel()
        await asyncio.wait([asked])

    run(work())
    billed = 1.0 + (0.4 * 0.25 + 0.2 if is_for_an_hour else 0.6 * 0.25)
    assert trial.used("money/key/alice/day") == pytest.approx(billed * UNIT)


@pytest.mark.parametrize(
    ("key", "team", "refused_by"),
    [
        (money(1), money(0.1), 'the budget of team "ml"'),
        (money(0.1), money(1), 'the budget of key "alice"'),
        ("requests_per_minute = 100\n", money(0.1), 'the budget of team "ml"'),
        (money(0.1), "tokens_per_minute = 9000\n", 'the budget of key "alice"'),
        (money(1), "tokens_per_minute = 140\n", 'the tokens_per_minute of team "ml"'),
        ("requests_per_minute = 2\n", money(1), 'the requests_per_minute of key "alice"'),
    ],
    ids=["team", "key", "team-beside-rate", "key-beside-rate", "tokens", "requests"],
)
def test_every_level_counts(key: str, team: str, refused_by: str) -> None:
    """2: skipped for one level when another is set."""
    trial = Trial(f'{ALICE}team = "ml"\n{key}[teams.ml]\n{team}')

    async def work() -> list[Received]:
        return [await trial.chat() for _ in range(3)]

    answers = run(work())
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[-1].json()["error"]["message"].startswith(refused_by)


def test_no_replica_decides_by_an_old_count(valkey: Valkey) -> None:
    """3: stale in one replica."""
    first, second = (Trial(ALICE + money(0.1), store=_fresh(valkey, n)) for n in range(2))

    async def work() -> list[int]:
        found = [(await trial.chat()).status for trial in (first, second, first, second)]
        for trial in (first, second):
            await asyncio.to_thread(flushed, trial.budgets)
        return found

    assert run(work()) == [200, 200, 429, 429]
    _close(first, second)


def test_who_has_no_budget_is_never_blocked() -> None:
    """4: blocked without a budget, by another's or by a store that fails."""
    keys = f'{ALICE}{money(0.1)}[keys.bob]\n[keys.carol]\nteam = "free"\n[teams.free]\n'
    trial = Trial(keys, store=_unreachable(), fails_open=False)

    async def work() -> list[int]:
        return [(await trial.chat(key)).status for key in ("alice", "bob", "carol", "bob")]

    assert run(work()) == [503, 200, 200, 200]
    trial.budgets.close()


def test_an_unknown_price_is_refused_by_name() -> None:
    """5: an unknown price counts as nothing, or as no number."""
    trial = Trial(f"{ALICE}{money(1)}[keys.bob]\nrequests_per_minute = 9\n")
    refused, other = run(_both(trial.chat(model="dark"), trial.chat("bob", model="dark")))
    assert refused.status == 403
    error = refused.json()["error"]
    assert (error["code"], error["type"]) == ("model_not_allowed", "permission_error")
    assert 'the price of "dark" is unknown' in error["message"]
    assert other.status == 200
    assert [call.body.count(b"example-of-no-catalogue") for call in trial.provider.asked] == [1]


def test_no_master_key_bypasses_its_limits() -> None:
    """6: a key that may do everything else keeps its own budget."""
    trial = Trial(f'{ALICE}role = "admin"\n{money(0.1)}')
    assert run(statuses(trial, 3)) == [200, 200, 429]


@pytest.mark.parametrize(
    "limit", [money(1), "tokens_per_minute = 9000\n", 'models = ["small"]\n', 'tiers = "simple"\n']
)
def test_nothing_is_passed_on_past_a_limit(limit: str) -> None:
    """7: a bypass by paths whose cost is not known."""
    trial = Trial(f"{ALICE}{limit}[keys.bob]\nrequests_per_minute = 2\n")
    body = {"model": "l", "input": "text"}

    async def work() -> tuple[list[Received], list[Received]]:
        refused = [await trial.ask(path, body) for path in ("/v1/embeddings", "/v1/batches")]
        return refused, [await trial.ask("/v1/embeddings", body, "bob") for _ in range(3)]

    refused, counted = run(work())
    assert [(each.status, each.json()["error"]["code"]) for each in refused] == [(403, "role_forbids")] * 2
    assert [each.status for each in counted] == [200, 200, 429]
    assert len(trial.provider.asked) == 2
    assert {row.caller for row in trial.ledger.passed()} == {"alice", "bob"}


def test_retries_and_fallbacks_pay_for_what_they_use() -> None:
    """8: a bypass by retries and fallbacks."""
    trial = Trial(ALICE + money(0.2) + "requests_per_minute = 3\n")
    seen: list[int] = []

    async def look() -> None:
        seen.append(trial.used("money/key/alice"))

    trial.provider.before = look
    trial.provider.answers = [lambda: whole(status=503), broken, whole]  # "small", "backup", its retry
    answer = run(trial.chat(model="auto"))
    assert answer.status == 200
    assert seen == [0.05 * UNIT] * 3  # each try has reserved, and a failure has given back
    assert trial.used("money/key/alice") == 0.05 * UNIT
    assert trial.used("requests/key/alice") == 1  # however many tries it took
    assert len(trial.ledger.attempts(answer.headers["x-pointsman-decision-id"])) == 3


def test_a_fallback_to_a_dearer_model_needs_room_of_its_own() -> None:
    """8: the reservation is made at the price of the model that is tried."""
    trial = Trial(ALICE + money(0.2))
    answer = run(trial.chat(model="reasoning"))  # 50 output tokens of "large" are 0.50
    assert (answer.status, trial.provider.asked) == (429, [])
    assert run(trial.chat(model="simple")).status == 200


def test_an_aborted_stream_pays_for_what_was_reserved() -> None:
    """9: a bypass by leaving before the end."""
    trial = Trial(ALICE + money(1))
    endless = stream(40, ends=False)
    endless.waits = asyncio.Event()
    trial.provider.answers = [lambda: endless]

    async def work() -> None:
        assert endless.waits is not None
        asked = asyncio.create_task(trial.chat(stream=True, max_tokens=500))
        await endless.waits.wait()
        assert trial.used("money/key/alice") == 0.5 * UNIT  # as reserved
        asked.cancel()
        await asyncio.wait([asked])

    run(work())
    assert trial.used("money/key/alice") == 0.5 * UNIT  # its upstream may go on writing
    assert trial.metric('pointsman_spent_total{key="alice",team=""} 0.5')


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize(
    "changes", [[-90_000.0], [-3_600.0], [86_400.0], [86_400.0 * 40], [-86_400.0 * 40, 86_400.0 * 80]]
)
def test_a_changed_clock_gives_nothing_back(changes: list[float], store: str, tmp_path: Path) -> None:
    """10: a clock that is set, and set right again, opens no window twice."""
    counted = MemoryBudgets() if store == "memory" else SqliteBudgets(tmp_path / "budgets.sqlite")
    trial = Trial(ALICE + money(0.1), store=counted)

    async def work() -> list[int]:
        found = await statuses(trial, 3)
        right = trial.now
        for change in changes:
            trial.now += change
            await statuses(trial, 3)
        trial.now = right
        return found + await statuses(trial, 1)

    assert run(work()) == [200, 200, 429, 429]
    trial.budgets.close()


# Many at once.


class Gate:
    """Holds the upstream until every request is either there or refused."""

    def __init__(self, trials: list[Trial], requests: int) -> None:
        self.trials = trials
        self.requests = requests
        self.refused = 0
        self.all_known = asyncio.Event()
        for trial in trials:
            trial.provider.before = self.arrive

    @property
    def arrived(self) -> int:
        return sum(len(trial.provider.asked) for trial in self.trials)

    async def arrive(self) -> None:
        self._look()
        await self.all_known.wait()

    async def send(self, trial: Trial, number: int) -> int:
        answer = await trial.chat(max_tokens=50, user=str(number))
        if answer.status != 200:
            self.refused += 1
            self._look()
        return answer.status

    def _look(self) -> None:
        if self.arrived + self.refused == self.requests:
            self.all_known.set()


async def _at_once(trials: list[Trial], requests: int) -> list[int]:
    gate = Gate(trials, requests)
    sent = (gate.send(trials[number % len(trials)], number) for number in range(requests))
    return list(await asyncio.gather(*sent))


def test_of_200_at_once_20_are_served_from_a_budget_for_20() -> None:
    trial = Trial(f'{ALICE}team = "ml"\n{money(50)}[teams.ml]\n{money(1)}')
    found = run(_at_once([trial], 200))
    assert (found.count(200), found.count(429)) == (20, 180)
    assert trial.used("money/team/ml") == UNIT
    assert trial.held == 0
    assert trial.metric('pointsman_limited_total{key="alice",limit="money",team="ml"} 180.0')


def test_of_200_at_once_20_are_served_by_two_gateways_with_one_valkey(
    valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    trials = [Trial(ALICE + money(1), store=_fresh(valkey, n)) for n in range(2)]

    async def work() -> tuple[list[int], list[int]]:
        first = await _at_once(trials, 200)
        for trial in trials:
            trial.provider.before = None
            await asyncio.to_thread(flushed, trial.budgets)
        return first, [(await trial.chat()).status for trial in trials]

    found, later = run(work())
    assert (found.count(200), found.count(429)) == (20, 180)
    assert later == [429, 429]
    assert "budgets and rate limits: " not in caplog.text  # the store answered each
    counters = list(_redis(trials[0]).keys("*money/key/alice*"))
    assert [int(_redis(trials[0]).hget(key, "S")) for key in counters] == [UNIT]
    _close(*trials)


def test_of_60_at_once_20_are_served_by_two_gateways_with_one_file(tmp_path: Path) -> None:
    file = tmp_path / "budgets.sqlite"
    trials = [Trial(ALICE + money(1), store=SqliteBudgets(file)) for _ in range(2)]
    found = run(_at_once(trials, 60))
    assert (found.count(200), found.count(429)) == (20, 40)
    _close(*trials)
    after = Trial(ALICE + money(1), store=SqliteBudgets(file))  # a restart forgets nothing
    assert run(statuses(after, 1)) == [429]
    _close(after)


def test_the_configured_file_counts_over_a_restart(tmp_path: Path) -> None:
    """The whole way from a file: counters, ledger and sessions as they are opened at the start."""
    hashed = hash_key("alice").hex()
    text = f"""
        [upstreams.demo]
        base_url = "{DEMO_URL}"
        [models]
        small = {{ upstream = "demo", id = "demo-small", input_per_million = 0, output_per_million = 200000 }}
        [tiers]
        simple = "small"
        [ledger]
        path = "ledger.sqlite"
        [access]
        path = "budgets.sqlite"
        [keys.alice]
        sha256 = "{hashed}"
        budget = {{ money = 1, per = "month" }}
    """
    found: list[int] = []
    for _ in range(2):
        builder = Builder(lambda: _loaded(tmp_path / "pointsman.toml", text))
        served = Gateway(builder())
        headers = {"authorization": "Bearer alice"}
        for _ in range(8):
            found.append(run(ask(served, "/v1/chat/completions", {**CHAT, "max_tokens": 1}, headers)).status)
            assert served.state.access is not None
            flushed(served.state.access.budgets)
        served.stop()
        builder.close()
    assert found[0] == 200  # its answer costs more than was reserved
    assert found[7:] == [429] * 9


# What a refusal says, and what is left.

_RESPONSES = {"model": "small", "input": "Hi", "max_output_tokens": 50}
FORMATS: dict[str, tuple[str, object, Callable[[Any], tuple[object, object]]]] = {
    "chat": ("/v1/chat/completions", CHAT, lambda error: (error["type"], error["code"])),
    "responses": ("/v1/responses", _RESPONSES, lambda error: (error["type"], error["code"])),
    "messages": ("/v1/messages", CHAT, lambda error: (error["type"], None)),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_used_up_budget_is_told_in_the_format_of_the_caller(name: str) -> None:
    path, body, said = FORMATS[name]
    trial = Trial(ALICE + money(0.1))
    run(statuses(trial, 2))
    answer = run(trial.ask(path, body))
    error = answer.json()["error"]
    assert answer.status == 429
    assert said(error)[0] == "rate_limit_error"
    assert said(error)[1] in {"insufficient_quota", None}
    assert error["message"] == (
        'the budget of key "alice" has 0.00 of 0.10 per day left; this request may take 0.05; '
        "send it again in 43200 s, at 2026-01-15T00:00:00Z"
    )
    assert answer.headers["retry-after"] == "43200"
    assert answer.headers["x-should-retry"] == "false"  # no client waits for half a day
    assert answer.headers["x-pointsman-budget-left"] == '0.00 of 0.10 per day; key "alice"'


@pytest.mark.parametrize("name", FORMATS)
def test_a_used_up_rate_is_told_with_when_to_come_again(name: str) -> None:
    path, body, said = FORMATS[name]
    trial = Trial(ALICE + "requests_per_minute = 1\n")
    trial.now += 17.5
    run(statuses(trial, 1))
    answer = run(trial.ask(path, body))
    assert answer.status == 429
    assert said(answer.json()["error"])[1] in {"rate_limit_exceeded", None}
    assert 'the requests_per_minute of key "alice" has 0 of 1 requests per minute left' in answer.body.decode(
        "unicode_escape"
    )
    assert answer.headers["retry-after"] == "43"
    assert "x-should-retry" not in answer.headers
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert len(trial.provider.asked) == 1
    trial.now += 60
    assert run(statuses(trial, 1)) == [200]


def test_a_stream_of_few_large_events_pays_for_its_text() -> None:
    trial = Trial(ALICE + money(9))
    delta = {"id": "1", "choices": [{"index": 0, "delta": {"content": "word" * 500}}]}
    event = b"data: " + json.dumps(delta).encode() + b"\n\n"
    end = b'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    trial.provider.answers = [lambda: Reply(200, [event, event, end], "text/event-stream")]
    assert run(statuses(trial, 1, stream=True)) == [200]
    assert trial.used("money/key/alice") == pytest.approx(1.0 * UNIT, rel=0.05)


_USAGE_EVENT = b'"choices": [], "usage"'


@pytest.mark.parametrize("limit", [money(1), "tokens_per_minute = 9000\n"])
@pytest.mark.parametrize(
    ("members", "options", "is_shown"),
    [
        ({}, {"include_usage": True}, False),
        ({"stream_options": None}, {"include_usage": True}, False),
        (
            {"stream_options": {"include_usage": False, "a": [1]}},
            {"include_usage": True, "a": [1]},
            False,
        ),
        ({"stream_options": {"include_usage": True}}, {"include_usage": True}, True),
        ({"stream_options": "all"}, "all", True),  # the upstream refuses it
        ({"stream": 1}, {"include_usage": True}, False),  # true, to a lenient upstream
    ],
)
def test_a_stream_under_a_limit_reports_its_usage(
    limit: str, members: dict[str, Any], options: Any, *, is_shown: bool
) -> None:
    """A bypass by not asking for the report: reasoning that is not shown would not count."""
    trial = Trial(ALICE + limit)
    trial.provider.answers = [lambda: stream(3, usage=40)]
    answer = run(trial.chat(**{"stream": True, **members}))
    assert json.loads(trial.provider.asked[0].body)["stream_options"] == options
    assert trial.used("money" if "money" in limit else "tokens") == (0.04 * UNIT if "money" in limit else 50)
    assert (_USAGE_EVENT in answer.body) is is_shown
    assert answer.body.count(b"data: ") == 5 + is_shown
    assert answer.body.endswith(b"\n\ndata: [DONE]\n\n")


def test_only_the_report_is_left_out_of_a_stream() -> None:
    """Whether it comes with other events at once, or last and without the blank line after it."""
    said = b'data: {"choices":[{"index":0,"delta":{"content":"\\"choices\\":[]"}}],"usage":null}\r\n\r\n'
    safe = b'data: {"choices":[],"prompt_filter_results":[]}\r\n\r\n'
    done = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\r\n\r\n'
    report = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":30}}'
    for parts in ([safe + said + done + report + b"\r\n\r\n"], [safe + said + done, report]):
        trial = Trial(ALICE + money(1))
        trial.provider.answers = [lambda parts=parts: Reply(200, parts, "text/event-stream")]  # type: ignore[misc]
        assert run(trial.chat(stream=True)).body.startswith(safe + said + done)
        assert trial.used("money") == 0.03 * UNIT
        assert b"completion_tokens" not in run(trial.chat(stream=True)).body[len(safe + said + done) :]


@pytest.mark.parametrize("key", ["[keys.alice]\n", "[keys.alice]\nrequests_per_minute = 9\n"])
def test_a_stream_without_such_a_limit_stays_as_it_is(key: str) -> None:
    trial = Trial(key)
    trial.provider.answers = [lambda: stream(3, usage=40)]
    answer = run(trial.chat(stream=True))
    assert b"stream_options" not in trial.provider.asked[0].body
    assert _USAGE_EVENT in answer.body


@pytest.mark.parametrize("no_stream", [False, None, 0])
def test_what_is_no_stream_stays_as_it_is(no_stream: object) -> None:
    trial = Trial(f"report_usage = true\n{ALICE}")
    assert run(trial.chat(stream=no_stream)).status == 200
    assert b"stream_options" not in trial.provider.asked[0].body


@pytest.mark.parametrize("key", ["[keys.alice]\n", ALICE + money(1)])
@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_every_stream_reports_its_usage_where_the_server_asks_for_it(
    key: str, options: dict[str, Any]
) -> None:
    trial = Trial(f"report_usage = true\n{key}")  # of [server]
    trial.provider.answers = [lambda: stream(3, usage=40)]
    answer = run(trial.chat(stream=True, **options))
    sent = trial.provider.asked[0].body
    assert json.loads(sent)["stream_options"] == {"include_usage": True}
    assert sent.count(b"stream_options") == 1
    assert (_USAGE_EVENT in answer.body) is bool(options)


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_a_translated_stream_under_a_limit_shows_its_usage_to_who_asks(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = limited._BASE.replace("retries = 1\n", 'retries = 1\nformats = ["messages"]\n')
    monkeypatch.setattr(limited, "_BASE", other)
    trial = Trial(ALICE + money(9))
    events = SAMPLES[MESSAGES].events(False)  # noqa: FBT003 - a field of a tuple
    trial.provider.answers = [lambda: Reply(200, events, "text/event-stream")]
    answer = run(trial.chat(model="backup", stream=True, **options))
    assert b"[DONE]" in answer.body
    assert (b'"completion_tokens"' in answer.body) is bool(options)
    assert b"stream_options" not in trial.provider.asked[0].body


def test_an_answer_of_too_many_parts_pays_what_it_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream has written and charged it, though it is not translated: it is not asked again."""
    other = limited._BASE.replace("retries = 1\n", 'retries = 1\nformats = ["messages"]\n')
    monkeypatch.setattr(limited, "_BASE", other)
    trial = Trial(ALICE + money(99))
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "look", "input": {}} for n in range(2_001)]
    used = {"input_tokens": 10, "output_tokens": 20_000}
    body = {"id": "1", "type": "message", "role": "assistant", "model": "b", "content": calls,
            "stop_reason": "tool_use", "usage": used}  # fmt: skip
    trial.provider.answers = [lambda: Reply(200, [json.dumps(body).encode()])]
    answer = run(trial.chat(model="backup"))
    assert (answer.status, trial.used("money/key/alice/day")) == (502, 20 * UNIT)
    assert b"not one of the format messages that can be translated" in answer.body
    [attempt] = trial.ledger.attempts(answer.headers["x-pointsman-decision-id"])
    assert (attempt.input_tokens, attempt.output_tokens, attempt.error) == (10, 20_000, "malformed")


def test_a_stream_without_a_report_pays_what_was_reserved_or_sent() -> None:
    for pieces, spent in ((3, 0.05), (70, 0.07)):
        trial = Trial(ALICE + money(1))
        trial.provider.answers = [lambda pieces=pieces: stream(pieces)]  # type: ignore[misc]
        assert run(trial.chat(stream=True)).status == 200
        assert trial.used("money") == pytest.approx(spent * UNIT, rel=0.2)


def test_what_a_budget_refuses_counts_as_a_request() -> None:
    trial = Trial(f"{ALICE}requests_per_minute = 4\n{money(0.1)}")
    assert run(statuses(trial, 3)) == [200, 200, 429]
    assert trial.used("requests/key/alice") == 3
    answers = run(_both(trial.chat(), trial.chat()))
    assert [each.json()["error"]["code"] for each in answers] == ["insufficient_quota", "rate_limit_exceeded"]


def test_every_answer_says_what_is_left() -> None:
    limits = "requests_per_minute = 10\ntokens_per_minute = 1000\n" + money(2)
    trial = Trial(f'{ALICE}team = "ml"\n{limits}[teams.ml]\nrequests_per_minute = 5\n')
    answer = run(trial.chat())
    left = {name: value for name, value in answer.headers.items() if name.startswith("x-ratelimit-")}
    read = 1 + len(trial.provider.asked[0].body) // 4
    assert int(left.pop("x-ratelimit-remaining-tokens")) == pytest.approx(1000 - 50 - read, abs=3)
    assert left == {
        "x-ratelimit-limit-requests": "5",  # of the two levels the tighter one; the upstream's is not relayed
        "x-ratelimit-remaining-requests": "4",
        "x-ratelimit-reset-requests": "1m0s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-reset-tokens": "1m0s",
    }
    assert answer.headers["x-pointsman-budget-left"] == '1.95 of 2.00 per day; key "alice"'


def test_a_key_without_limits_gets_no_such_headers() -> None:
    trial = Trial(f"{ALICE}[keys.bob]\n{money(1)}")
    answer = run(trial.chat())
    assert answer.headers["x-ratelimit-limit-requests"] == "999999"  # the upstream's own
    assert "x-pointsman-budget-left" not in answer.headers
    assert trial.gateway.state.access is not None
    assert set(trial.gateway.state.access.grants) == {"bob"}


def test_a_request_larger_than_the_whole_budget_is_told_so() -> None:
    answer = run(Trial(ALICE + money(0.1)).chat(max_tokens=500))
    assert answer.status == 429
    message = answer.json()["error"]["message"]
    assert "it is more than all of the budget" in message
    assert "set a lower max_tokens (without one 4,096 are reserved)" in message
    assert "retry-after" not in answer.headers


def test_a_budget_is_told_once_for_all_models_of_a_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    models = limited._BASE.replace('simple = ["small"', 'simple = ["large", "small"')
    monkeypatch.setattr(limited, "_BASE", models)
    monkeypatch.setattr(limited, "_engine", limited._engine.__wrapped__)
    trial = Trial(ALICE + money(0.3))
    run(statuses(trial, 5))
    answer = run(trial.chat(model="simple", max_tokens=60))
    assert answer.json()["error"]["message"] == (
        'the budget of key "alice" has 0.05 of 0.30 per day left; this request may take 0.60 with "large", '
        '0.06 with "small" or "backup"; send it again in 43200 s, at 2026-01-15T00:00:00Z'
    )
    assert answer.headers["retry-after"] == "43200"  # the smaller ones have room then


STORES: dict[str, Callable[[Path], BudgetStore]] = {
    "memory": lambda _: MemoryBudgets(),
    "sqlite": lambda folder: SqliteBudgets(folder / "budgets.sqlite"),
}


@pytest.mark.parametrize("kind", STORES)
def test_a_budget_that_running_requests_hold_is_to_be_asked_soon_again(tmp_path: Path, kind: str) -> None:
    """The window ends in twelve hours, and the reservations with their requests."""
    trial = Trial(ALICE + money(0.1), store=STORES[kind](tmp_path))

    async def beside_a_running_one() -> tuple[Received, Received]:
        is_asked, ends = asyncio.Event(), asyncio.Event()

        async def asked() -> None:
            is_asked.set()
            await ends.wait()

        trial.provider.before = asked
        trial.provider.answers = [lambda: whole(20)]
        running = asyncio.create_task(trial.chat(max_tokens=80))
        await is_asked.wait()
        refused, too_large = await trial.chat(), await trial.chat(max_tokens=120)
        ends.set()
        assert (await running).status == 200
        return refused, too_large

    refused, too_large = run(beside_a_running_one())
    assert refused.status == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert refused.json()["error"]["message"] == (
        'the budget of key "alice" has 0.02 of 0.10 per day left; this request may take 0.05; '
        "requests in progress have reserved 0.08: send it again in 10 s"
    )
    assert refused.headers["retry-after"] == "10"
    assert "x-should-retry" not in refused.headers
    assert "retry-after" not in too_large.headers
    flushed(trial.budgets)
    assert run(statuses(trial, 1)) == [200]
    flushed(trial.budgets)
    spent = run(trial.chat())  # 0.02 and 0.05 are used
    assert (spent.headers["retry-after"], spent.json()["error"]["code"]) == ("43200", "insufficient_quota")


def test_what_a_killed_process_had_reserved_is_no_request_in_progress(tmp_path: Path) -> None:
    """It stays used: a client that came again each ten seconds was refused until the end of the window."""
    now = [0.0]

    def opened() -> SqliteBudgets:
        return SqliteBudgets(tmp_path / "budgets.sqlite", clock=lambda: now[0])

    trial = Trial(ALICE + money(0.1), store=opened())
    access = trial.gateway.state.access
    assert access is not None
    killed, claim = opened(), access.grants["alice"].limits[0].claim(UNIT // 10, trial.now)
    killed.join("killed")
    assert killed.reserve("killed-1", [claim]).ok
    killed.close()
    assert run(trial.chat()).headers["retry-after"] == "10"  # it may be at work
    now[0] = SHARE_SECONDS
    refused = run(trial.chat())
    assert refused.json()["error"]["code"] == "insufficient_quota"
    assert (refused.headers["retry-after"], refused.headers["x-should-retry"]) == ("43200", "false")


# Reserving and settling.


@pytest.mark.parametrize(
    ("answer", "error", "spent"),
    [
        (lambda: whole(7), 200, 0.007),
        (lambda: whole(80), 200, 0.080),  # more than was reserved
        (lambda: whole(None), 200, 0.050),  # not told: what was reserved
        (lambda: whole(status=500), 500, 0.0),
        (lambda: Reply(200, [b"no JSON"]), 502, 0.0),  # the input, which is free here
        (broken, 502, 0.0),
        (lambda: stream(12), 200, 0.050),  # not told, though it was asked: what is not shown may count
    ],
    ids=["less", "more", "untold", "refused", "malformed", "broken", "stream"],
)
def test_usage_takes_the_place_of_what_was_reserved(answer: Any, error: int, spent: float) -> None:
    trial = Trial(ALICE + money(1))
    trial.provider.answers = [answer]
    assert run(trial.chat()).status == error
    assert trial.held == 0
    if spent:
        assert trial.used("money/key/alice") == round(spent * UNIT)
    else:
        assert trial.used("money/key/alice") <= 0.02 * UNIT


@pytest.mark.parametrize(
    ("asked", "reserved"),
    [({"max_tokens": 50}, 0.05), ({}, 4.096), ({"max_tokens": 5, "n": 3}, 0.015), ({"max_tokens": 0}, 4.096)],
    ids=["stated", "not-stated", "several-answers", "zero"],
)
def test_what_is_reserved_follows_what_the_request_asks_for(asked: dict[str, Any], reserved: float) -> None:
    trial = Trial(ALICE + money(5))
    seen: list[int] = []

    async def look() -> None:
        seen.append(trial.used("money/key/alice"))

    trial.provider.before = look
    body = {name: value for name, value in CHAT.items() if name != "max_tokens"} | asked
    run(trial.ask("/v1/chat/completions", body))
    assert seen == [round(reserved * UNIT)]


@pytest.mark.parametrize("members", [{"max_tokens": 10**400}, {"max_tokens": 50, "n": 10**400}])
def test_no_number_in_a_request_is_too_large_to_be_refused(members: dict[str, Any]) -> None:
    trial = Trial(ALICE + money(1_000_000) + "tokens_per_minute = 1000\n")
    assert run(trial.chat(**members)).status == 429
    assert trial.provider.asked == []


@pytest.mark.parametrize(("limit", "reserved"), [(1e5, 100.0), (5.0, 0.005)], ids=["exponent", "point"])
def test_a_whole_float_reserves_as_its_integer(limit: float, reserved: float) -> None:
    trial = Trial(ALICE + money(500))
    seen: list[int] = []

    async def look() -> None:
        seen.append(trial.used("money/key/alice"))

    trial.provider.before = look
    run(trial.chat(max_tokens=limit))
    assert seen == [round(reserved * UNIT)]


@pytest.mark.parametrize(
    ("path", "members"),
    [
        ("/v1/chat/completions", {"max_tokens": 1.5}),
        ("/v1/chat/completions", {"max_completion_tokens": "9999"}),
        ("/v1/chat/completions", {"n": True}),
        ("/v1/messages", {"max_tokens": [1]}),
        ("/v1/responses", {"max_output_tokens": "1"}),
        ("/v1/responses", {"background": True}),
        ("/v1/responses", {"service_tier": "priority"}),
    ],
    ids=["fraction", "text", "true", "list", "responses-text", "background", "service-tier"],
)
def test_what_nobody_can_count_is_refused(path: str, members: dict[str, Any]) -> None:
    trial = Trial(f"{ALICE}{money(5)}[keys.bob]\n")
    body = (_RESPONSES if path == "/v1/responses" else CHAT) | members
    answer = run(trial.ask(path, body))
    assert answer.status == 400
    assert next(iter(members)) in answer.json()["error"]["message"]
    assert trial.provider.asked == []


@pytest.mark.parametrize("output", [1 << 53, 10**20, -5])
def test_no_report_of_an_upstream_breaks_the_counters(output: int, tmp_path: Path) -> None:
    store = SqliteBudgets(tmp_path / "budgets.sqlite")
    trial = Trial(ALICE + money(1) + "tokens_per_minute = 1000\n", store=store)
    trial.provider.answers = [lambda: whole(output)]
    run(statuses(trial, 1))
    flushed(trial.budgets)
    assert trial.budgets.lost == 0
    assert run(statuses(trial, 1)) == [429 if output == 1 << 53 else 200]  # others count as not reported
    _close(trial)


def test_a_settlement_that_cannot_be_written_takes_no_others_with_it(tmp_path: Path) -> None:
    budgets = Budgets(SqliteBudgets(tmp_path / "budgets.sqlite"))
    claims = [Claim("a", 5, 100, 60.0)]
    for name in ("first", "second"):
        assert budgets.store.reserve(name, claims).ok
    assert budgets._settle_shared([Settlement("first", {"a": 2**70}), Settlement("second", {"a": 1})]) == 1
    assert budgets.read(["a"]) == (6,)
    budgets.close()


def test_a_caller_who_leaves_before_the_answer_pays_what_was_reserved() -> None:
    trial = Trial(ALICE + money(1) + "tokens_per_minute = 1000\n")
    waits = asyncio.Event()

    async def forever() -> None:
        waits.set()
        await asyncio.Event().wait()

    trial.provider.before = forever

    async def work() -> None:
        asked = asyncio.create_task(trial.chat())
        await waits.wait()
        asked.cancel()
        await asyncio.wait([asked])

    run(work())
    assert trial.used("money/key/alice") == 0.05 * UNIT
    assert 50 < trial.used("tokens/key/alice") < 100
    assert trial.held == 0


def test_a_caller_who_leaves_while_the_store_is_asked_gets_it_back() -> None:
    store = _Slow()
    trial = Trial(ALICE + money(1), store=store)

    async def work() -> None:
        asked = asyncio.create_task(trial.chat())
        await asyncio.to_thread(store.asked.wait, PATIENCE)
        asked.cancel()
        await asyncio.wait([asked])
        store.answer.set()
        await asyncio.to_thread(store.settled.wait, PATIENCE)
        await asyncio.to_thread(flushed, trial.budgets)

    run(work())
    assert list(store._totals.values()) == [0]
    trial.budgets.close()


# A store that fails.


def test_an_outage_leaves_a_gateway_its_share_of_a_tenth(caplog: pytest.LogCaptureFixture) -> None:
    """Two requests of 0.05: the only process may spend 0.10 of a budget of 1."""
    trial = Trial(f"{ALICE}{money(1)}[keys.bob]\nrequests_per_minute = 3\n", store=_unreachable())
    assert run(statuses(trial, 4)) == [200, 200, 503, 503]
    told = [record for record in caplog.records if "budgets and rate limits" in record.message]
    assert len(told) == 2
    assert "no store can vouch for a budget" in told[1].message

    async def of_bob() -> list[int]:
        return [(await trial.chat("bob")).status for _ in range(4)]

    assert run(of_bob()) == [200, 200, 200, 429]  # nobody pays for a rate: the whole limit holds
    assert trial.gateway.state.faults["budgets"]
    assert trial.metric("pointsman_stores_failing 1.0")
    trial.budgets.close()


def test_an_outage_may_refuse_instead() -> None:
    trial = Trial(ALICE + money(0.1), store=_unreachable(), fails_open=False)
    answer = run(trial.chat())
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert "the limits of this key cannot be checked now" in answer.json()["error"]["message"]
    assert trial.provider.asked == []
    trial.budgets.close()


# A budget nearly spent.

LOW = money(1) + 'when_low = "lower_tier"\nlow_share = 0.5\n'


def test_a_budget_nearly_spent_lowers_the_tier_and_says_so() -> None:
    trial = Trial(ALICE + LOW)
    hard = {"model": "auto", "max_tokens": 50, "messages": [{"role": "user", "content": HARD}]}

    async def work() -> tuple[Received, Received, Received]:
        return (
            await trial.ask("/v1/chat/completions", hard),  # 0.50 of "large"
            await trial.ask("/v1/chat/completions", hard),
            await trial.chat(model="large", max_tokens=10),  # asked for by name: until nothing is left
        )

    first, second, named = run(work())
    assert [each.headers["x-pointsman-model"] for each in (first, second, named)] == [
        "large",
        "small",
        "large",
    ]
    assert "x-pointsman-tier-lowered" not in first.headers
    assert second.headers["x-pointsman-tier-lowered"] == (
        "access.budget-low: SIMPLE instead of REASONING: "
        'the budget of key "alice" has 0.50 of 1.00 per day left'
    )
    decision = trial.ledger.get(second.headers["x-pointsman-decision-id"])
    assert decision is not None
    assert decision.tier is not None
    assert decision.tier.tier == "REASONING"
    assert decision.chain[0] == "small"
    assert [reason.code for reason in decision.reasons].count("access.budget-low") == 1
    permission = decision.input.permission
    assert permission is not None
    assert (permission.low, permission.priced) == ("SIMPLE", True)


def test_a_budget_nearly_spent_refuses_nothing_that_only_a_higher_tier_can_serve() -> None:
    trial = Trial(ALICE + LOW + 'models = ["large"]\n')
    hard = {"model": "auto", "max_tokens": 20, "messages": [{"role": "user", "content": HARD}]}

    async def work() -> list[Received]:
        await trial.chat(model="large", max_tokens=50)
        return [await trial.ask("/v1/chat/completions", hard)]

    (answer,) = run(work())
    assert (answer.status, answer.headers["x-pointsman-model"]) == (200, "large")


def _loaded(file: Path, text: str) -> Config:
    found = examine(file, {}, text=text).config
    assert found is not None
    return found


async def _both(*asked: Awaitable[Received]) -> list[Received]:
    return [await each for each in asked]


def _fresh(server: Valkey, number: int) -> ValkeyBudgets:
    store = ValkeyBudgets(server.url, password=server.password, timeout=PATIENCE)
    if number == 0:
        store._client.redis.flushdb()
    return store


def _redis(trial: Trial) -> Any:
    store = trial.budgets.store
    assert isinstance(store, ValkeyBudgets)
    return store._client.redis


def _close(*trials: Trial) -> None:
    for trial in trials:
        trial.budgets.close()


def _unreachable() -> ValkeyBudgets:
    pytest.importorskip("redis")
    return ValkeyBudgets("redis://127.0.0.1:1/0", timeout=PATIENCE)


class _Slow(MemoryBudgets):
    """A store elsewhere that answers when the test says so."""

    waits = True  # type: ignore[misc]

    def __init__(self) -> None:
        import threading

        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()
        self.settled = threading.Event()

    def reserve(self, *given: Any) -> Any:
        self.asked.set()
        self.answer.wait(PATIENCE)
        return super().reserve(*given)

    def settle(self, *given: Any) -> None:
        super().settle(*given)
        self.settled.set()


@pytest.mark.parametrize("first", ["start", "body"])
def test_usage_that_came_before_the_caller_left_is_recorded(first: str) -> None:
    """The upstream has said all of it in its first block; the caller is gone before a byte reaches it."""
    trial = Trial(ALICE + money(9))
    usage = {"prompt_tokens": 30, "completion_tokens": 7}
    event = {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    block = b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n"
    trial.provider.answers = [lambda: Reply(200, [block], "text/event-stream")]

    async def gone(message: Any) -> None:
        if message["type"] == f"http.response.{first}":
            raise asyncio.CancelledError

    async def work() -> None:
        raw = json.dumps({**CHAT, "stream": True}).encode()
        await_body = [{"type": "http.request", "body": raw, "more_body": False}]

        async def receive() -> Any:
            return await_body.pop() if await_body else await asyncio.Event().wait()

        path = b"/v1/chat/completions"
        headers = [(b"authorization", b"Bearer alice"), (b"content-type", b"application/json"),
                   (b"content-length", b"%d" % len(raw))]  # fmt: skip
        scope = {"type": "http", "method": "POST", "path": path.decode(), "raw_path": path,
                 "query_string": b"", "headers": headers}  # fmt: skip
        with pytest.raises(asyncio.CancelledError):
            await trial.gateway(scope, receive, gone)

    run(work())
    [record] = trial.ledger.records()
    [attempt] = record.attempts
    assert (attempt.input_tokens, attempt.output_tokens, attempt.error) == (30, 7, "disconnect")
    assert trial.used("money/key/alice") == 0.007 * UNIT
    assert trial.held == 0
