"""Keys: until when they are valid, what their roles allow, and what a reload changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from pointsman.reports.outcomes import scored
from pointsman.stores.ledger import Outcome, Record
from pointsman.upstreams.port import hash_key
from support.in_process import Received
from support.limited import CHAT, NOON, Trial, config_of

ALICE = "[keys.alice]\n"
BUDGET = 'budget = { money = 0.1, per = "day" }\n'
RESPONSES = {"model": "small", "input": "Hi", "max_output_tokens": 50}
FORMATS = [("/v1/chat/completions", CHAT), ("/v1/responses", RESPONSES), ("/v1/messages", CHAT)]


def run(work: Awaitable[Any]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(limited())


def error(answer: Received) -> str:
    return str(answer.json()["error"]["message"])


@pytest.mark.parametrize(("path", "body"), FORMATS)
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (ALICE + "revoked = true", 'key "alice" is revoked'),
        (ALICE + "expires = 2026-01-13", 'key "alice" has expired'),
        (f'{ALICE}team = "ml"\n[teams.ml]\nrevoked = true', 'team "ml" is revoked'),
        (f'{ALICE}team = "ml"\n[teams.ml]\nexpires = 2025-12-31', 'team "ml" has expired'),
    ],
    ids=["revoked", "expired", "team-revoked", "team-expired"],
)
def test_a_key_that_is_no_longer_valid_gets_403(path: str, body: object, limits: str, message: str) -> None:
    trial = Trial(limits)
    answer = run(trial.ask(path, body))
    assert answer.status == 403
    assert answer.json()["error"]["type"] == "permission_error"
    assert error(answer).startswith(message)
    assert answer.headers["x-should-retry"] == "false"
    assert (trial.provider.asked, list(trial.ledger.decisions())) == ([], [])


@pytest.mark.parametrize("path", ["/v1/models", "/v1/decisions/d-1", "/metrics", "/v1/files/f-1"])
def test_a_revoked_key_reads_nothing(path: str) -> None:
    answer = run(Trial(ALICE + "revoked = true").ask(path, b"", method="GET"))
    assert (answer.status, error(answer)[:21]) == (403, 'key "alice" is revoke')


def test_a_key_is_valid_to_the_end_of_its_last_day() -> None:
    trial = Trial(ALICE + "expires = 2026-01-14")

    async def work() -> list[int]:
        found = []
        for seconds in (0.0, 43_199.0, 43_200.0):
            trial.now = NOON + seconds
            found.append((await trial.chat()).status)
        return found

    assert run(work()) == [200, 200, 403]


def test_several_keys_of_one_name_share_its_budget() -> None:
    text = f'{ALICE}more_sha256 = ["{hash_key("alice-next").hex()}"]\n{BUDGET}'
    trial = Trial(text)

    async def work() -> list[int]:
        return [(await trial.chat(key)).status for key in ("alice", "alice-next", "alice", "alice-next")]

    assert run(work()) == [200, 200, 429, 429]
    assert {each.input.caller for each in trial.ledger.decisions()} == {"alice"}


def test_a_reload_revokes_raises_and_forgets_nothing() -> None:
    trial = Trial(ALICE + BUDGET)

    async def work() -> list[int]:
        found = [(await trial.chat()).status for _ in range(3)]
        trial.reload(ALICE + BUDGET.replace("0.1", "0.15"))
        found += [(await trial.chat()).status for _ in range(2)]
        trial.reload(ALICE + BUDGET + "revoked = true")
        found.append((await trial.chat()).status)
        trial.reload(ALICE)
        return [*found, (await trial.chat()).status]

    assert run(work()) == [200, 200, 429, 200, 429, 403, 200]


def test_decisions_belong_to_their_key_and_viewers_and_admins_see_all() -> None:
    keys = [ALICE, "[keys.bob]\n", '[keys.vera]\nrole = "viewer"\n', '[keys.adam]\nrole = "admin"\n']
    trial = Trial("".join(keys))

    async def work() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        decided = (await trial.chat()).headers["x-pointsman-decision-id"]
        path = f"/v1/decisions/{decided}"
        names = ("alice", "bob", "vera", "adam")
        seen = {name: (await trial.ask(path, b"", name, method="GET")).status for name in names}
        said = {name: (await trial.ask(path + "/outcome", {"score": 1}, name)).status for name in names}
        read = {name: (await trial.ask("/metrics", b"", name, method="GET")).status for name in names}
        return seen, said, read

    seen, said, read = run(work())
    assert seen == {"alice": 200, "bob": 404, "vera": 200, "adam": 200}
    assert said == {"alice": 202, "bob": 404, "vera": 403, "adam": 202}
    assert read == {"alice": 403, "bob": 403, "vera": 200, "adam": 200}
    [decision] = trial.ledger.decisions()
    posted = trial.ledger.outcomes(decision.id)
    assert [outcome.source for outcome in posted] == ["caller:alice", "api"]
    by_caller = Outcome(decision=decision.id, score=0, model="m", source="caller:alice")
    record = Record(decision, (), (by_caller,), "Hi")
    assert scored(record) is not None
    assert scored(record, callers=False) is None, "a fit on the console is the operators' own"


def test_a_viewer_uses_no_model() -> None:
    trial = Trial('[keys.vera]\nteam = "staff"\n[teams.staff]\nrole = "viewer"\n')
    paths = ["/v1/chat/completions", "/v1/messages/count_tokens", "/v1/embeddings", "/v1/decide"]

    async def work() -> list[Received]:
        return [await trial.ask(path, CHAT, "vera") for path in paths]

    for answer in run(work()):
        assert answer.status == 403
        assert 'its role is "viewer"' in error(answer)
    assert trial.provider.asked == []


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/decide", "/v1/explain"])
def test_requests_that_cost_nothing_count_against_the_rate(path: str) -> None:
    trial = Trial(ALICE + "requests_per_minute = 2\n" + BUDGET)

    async def work() -> list[int]:
        return [(await trial.ask(path, CHAT)).status for _ in range(3)]

    assert run(work()) == [200, 200, 429]
    assert trial.used("requests/key/alice") == 2
    assert trial.held == 0


def test_rows_carry_the_names_of_key_and_team_and_never_the_key() -> None:
    trial = Trial('[keys.alice]\nteam = "ml"\nrequests_per_minute = 9\n[teams.ml]\n')
    answer = run(trial.chat())
    decision = trial.ledger.get(answer.headers["x-pointsman-decision-id"])
    assert decision is not None
    assert (decision.input.caller, decision.input.team) == ("alice", "ml")
    assert hash_key("alice").hex() not in repr(decision)


def test_a_model_that_is_not_allowed_is_named() -> None:
    trial = Trial(ALICE + 'models = ["sm*"]\n')

    async def work() -> tuple[Received, Received]:
        return await trial.chat(model="large"), await trial.chat(model="auto")

    refused, served = run(work())
    assert refused.status == 403
    assert error(refused).startswith(
        'key "alice" may use no model for this request: "large" is none of the models of this key'
    )
    assert refused.headers["x-pointsman-decision-id"].startswith("d-")
    assert (served.status, served.headers["x-pointsman-model"]) == (200, "small")


def test_a_configuration_without_limits_has_no_grants() -> None:
    config = config_of(f'[keys.alice]\nsha256 = "{hash_key("alice").hex()}"')
    assert config.keys["alice"].requests_per_minute is None
    assert Trial(ALICE).gateway.state.access is None
