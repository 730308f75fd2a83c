"""Outcomes that callers report: of decisions that there are, within bounds, a few of each."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from pointsman.stores.ledger import Ledger, MemoryLedger, SqliteLedger
from pointsman.stores.ledger.outcome_reports import LENGTHS, MAX_OUTCOMES
from pointsman.testing import a_run_entry
from support.deciders import ScriptedDecider
from support.servers import gateway, state_for

pytestmark = pytest.mark.integration

LEDGERS: dict[str, Callable[[Path], Ledger]] = {
    "memory": lambda _: MemoryLedger(),
    "sqlite": lambda folder: SqliteLedger(folder / "ledger.sqlite"),
}


class Trial:
    """A gateway with one model and a ledger."""

    def __init__(self, client: httpx.Client, ledger: Ledger) -> None:
        self.client = client
        self.ledger = ledger

    def decided(self) -> str:
        """Return the id of a decision just made."""
        body = {"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}
        answer = self.client.post("/v1/chat/completions", json=body)
        return answer.raise_for_status().headers["x-pointsman-decision-id"]

    def report(
        self, decision: str, body: bytes = b'{"score": 1}', headers: dict[str, str] | None = None
    ) -> httpx.Response:
        return self.client.post(f"/v1/decisions/{decision}/outcome", content=body, headers=headers)


@contextmanager
def serving(ledger: Ledger) -> Iterator[Trial]:
    state = state_for(decider=ScriptedDecider("m0", ledger=ledger))
    with closing(ledger), gateway(state) as running, httpx.Client(base_url=running.url) as client:
        yield Trial(client, ledger)


@pytest.fixture(scope="module", params=LEDGERS)
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with serving(LEDGERS[request.param](tmp_path_factory.mktemp("ledger"))) as trial:
        yield trial


def test_a_run_of_an_agent_is_read_by_its_id(trial: Trial) -> None:
    trial.ledger.append(a_run_entry("r-1", 1))
    trial.ledger.append(a_run_entry("r-1", 2))
    found = trial.client.get("/v1/decisions/r-1").raise_for_status().json()
    assert (found["run"], [entry["number"] for entry in found["entries"]]) == ("r-1", [1, 2])
    assert (found["questions"], found["usage"]["questions"]) == ([], 0)
    assert trial.client.get("/v1/decisions/r-2").status_code == 404


@pytest.mark.parametrize("body", [b'{"score": 0}', b'{"score": 1}', b'{"score": 0.5}', b'{"label": "fine"}'])
def test_an_outcome_right_after_the_answer_is_taken(trial: Trial, body: bytes) -> None:
    decision = trial.decided()
    answer = trial.report(decision, body)
    assert (answer.status_code, answer.content) == (202, b"")
    assert len(trial.ledger.outcomes(decision)) == 1


def test_a_decision_that_is_not_there_takes_none(trial: Trial) -> None:
    trial.decided()
    answer = trial.report("d-99")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == 'there is no decision "d-99"'
    answer = trial.report("d-99", headers={"anthropic-version": "2023-06-01"})
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "not_found_error"
    assert trial.ledger.outcomes("d-99") == ()


def test_unknown_decisions_leave_nothing_on_the_disk(tmp_path: Path) -> None:
    with serving(SqliteLedger(tmp_path / "ledger.sqlite")) as trial:
        assert {trial.report(f"d-{number}").status_code for number in range(50)} == {404}
    assert list(tmp_path.iterdir()) == []


def test_a_decision_takes_so_many_and_the_limit_is_named(trial: Trial) -> None:
    decision = trial.decided()
    answers = [trial.report(decision) for _ in range(MAX_OUTCOMES + 1)]
    assert [answer.status_code for answer in answers] == [202] * MAX_OUTCOMES + [409]
    assert f"takes {MAX_OUTCOMES} at most" in answers[-1].json()["error"]["message"]
    assert len(trial.ledger.outcomes(decision)) == MAX_OUTCOMES


LONG = {name: b'{"score": 1, "%s": "%s"}' % (name.encode(), b"x" * (LENGTHS[name] + 1))
        for name in ("label", "comment", "model")}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"score": -5}', '"score" must be a number from 0 to 1, not -5'),
        (b'{"score": 1e300}', '"score" must be a number from 0 to 1, not 1e+300'),
        (b'{"score": 1.000001}', '"score" must be a number from 0 to 1'),
        (b'{"score": 1e999}', "out of range"),
        (b'{"score": NaN}', "JSON is malformed"),
        (b'{"score": "1"}', "at `$.score`"),
        (b"{}", 'needs a "score" or a "label"'),
        (b'{"comment": "hm"}', 'needs a "score" or a "label"'),
        *((body, f'"{name}" is longer than {LENGTHS[name]:,} characters') for name, body in LONG.items()),
    ],
)
def test_what_is_out_of_bounds_is_refused_and_named(trial: Trial, body: bytes, why: str) -> None:
    decision = trial.decided()
    answer = trial.report(decision, body)
    assert answer.status_code == 400
    assert why in answer.json()["error"]["message"]
    assert trial.ledger.outcomes(decision) == ()


@pytest.mark.parametrize("name", LONG)
def test_what_is_as_long_as_it_may_be_is_taken(trial: Trial, name: str) -> None:
    body = b'{"score": 1, "%s": "%s"}' % (name.encode(), b"x" * LENGTHS[name])
    assert trial.report(trial.decided(), body).status_code == 202


def test_a_ledger_that_cannot_be_read_is_not_an_unknown_decision(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"not a database at all, " * 100)
    with serving(SqliteLedger(tmp_path / "ledger.sqlite")) as trial:
        assert trial.report("d-99").status_code == 503
        assert trial.report(trial.decided()).status_code == 202  # both wait
