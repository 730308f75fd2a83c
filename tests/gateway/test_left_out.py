"""Models that do not answer at run time: who answered instead, and why, is told and counted."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.gateway import _failures as retry
from pointsman.gateway.app import Gateway
from pointsman.stores.ledger import Attempt, SqliteLedger
from pointsman.vocabulary import WireFormat
from support.requests_by_format import PATHS, answer, format_of, request
from support.servers import Asked, ScriptedUpstream, gateway, reply

pytestmark = pytest.mark.integration

MODELS = """
[models]
easy = { upstream = "up0", id = "e" }
hard = { upstream = "up1", id = "h" }

[tiers]
simple = "easy"
complex = "hard"
boundaries = [-9, -8, -7]
"""


async def answering(asked: Asked, send: Any) -> None:
    await reply(send, 200, answer(format_of(asked.path)))


async def down(asked: Asked, send: Any) -> None:
    await reply(
        send, 503, b'{"error":{"message":"the words of the provider, with operators-key-0123456789"}}'
    )


async def overloaded(asked: Asked, send: Any) -> None:
    await reply(send, 429, b'{"error":{"message":"slow down"}}')


async def refusing(asked: Asked, send: Any) -> None:
    await reply(send, 401, b'{"error":{"message":"Incorrect API key provided: operators-key-0123456789"}}')


async def picky(asked: Asked, send: Any) -> None:
    await reply(send, 400, b'{"error":{"message":"the temperature is too high"}}')


class Found:
    """A gateway before scripted upstreams, and what it tells."""

    def __init__(self, url: str, gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
        self._url = url
        self._gateway = gateway
        self._caplog = caplog

    def post(
        self, wire: WireFormat = WireFormat.CHAT, own: Mapping[str, str] | None = None, **body: Any
    ) -> httpx.Response:
        headers = {"x-pointsman-debug": "1", **(own or {})}
        return httpx.post(
            self._url + PATHS[wire], json=request(wire, **body), headers=headers, trust_env=False
        )

    def told(self, words: str = "") -> list[str]:
        """The warnings so far that hold some words."""
        records = [r for r in self._caplog.records if r.levelno >= logging.WARNING]
        return [line for line in map(logging.LogRecord.getMessage, records) if words in line]

    def attempts(self) -> list[tuple[str, int, str]]:
        """Model, status and error of each row of the latest decision."""
        ledger = self._gateway.state.runtime.ledger
        assert isinstance(ledger, SqliteLedger)
        rows: tuple[Attempt, ...] = ()
        while not any(row.status == 200 for row in rows):  # written once the answer has been sent
            time.sleep(0.01)
            rows = ledger.attempts(next(iter(ledger.decisions(limit=1))).id)
        assert [row.number for row in rows] == list(range(1, len(rows) + 1))
        return [(row.model, row.status, row.error) for row in rows]

    def counted(self, name: str) -> list[str]:
        page = self._gateway.metrics.page().decode().splitlines()
        return [line for line in page if line.startswith(f"pointsman_{name}_total{{")]


@contextmanager
def serving(
    directory: Path, caplog: pytest.LogCaptureFixture, *upstreams: tuple[Any, str], models: str = MODELS
) -> Iterator[Found]:
    """Serve with an upstream for each way of answering and its settings."""
    text = f'[server]\nport = 0\n[ledger]\npath = "ledger.sqlite"\n{models}'
    with ExitStack() as stack:
        for number, (answers, settings) in enumerate(upstreams):
            url = stack.enter_context(ScriptedUpstream(answers).running())
            text += f'\n[upstreams.up{number}]\nbase_url = "{url}/v1"\nretries = 0\n{settings}\n'
        file = directory / "pointsman.toml"
        file.write_text(text, encoding="utf-8")
        running = stack.enter_context(gateway(file, {"KEY": "operators-key-0123456789"}))
        stack.enter_context(caplog.at_level(logging.WARNING, "pointsman"))
        caplog.clear()
        yield Found(running.url, running.gateway, caplog)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST", 0.001)


def test_a_lower_tier_for_want_of_a_credential(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path, caplog, (answering, ""), (answering, "forward_auth = true")) as found:
        for _ in range(3):
            got = found.post()
            assert (got.headers["x-pointsman-tier"], got.headers["x-pointsman-model"]) == (
                "REASONING",
                "easy",
            )
            assert got.headers["x-pointsman-attempts"] == "1"
            assert got.headers["x-pointsman-left-out"] == "hard: credential"
        [line] = found.told("of tier SIMPLE")
        assert 'tier REASONING in format chat was answered by "easy" of tier SIMPLE' in line
        assert '"hard" did not answer: this upstream takes the caller\'s own credential' in line
        lower = 'pointsman_lower_tier_total{served="SIMPLE",tier="REASONING"} 3.0'
        assert found.counted("lower_tier") == [lower]
        assert found.attempts() == [("hard", 0, "credential"), ("easy", 200, "")]


def test_a_lower_tier_for_want_of_an_upstream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path, caplog, (answering, ""), (down, "")) as found:
        for number in range(12):
            session = {"x-session-id": f"s-{number}"}
            assert found.post(own=session).headers["x-pointsman-model"] == "easy"
        told = found.told("of tier SIMPLE")
        assert found.counted("lower_tier") == [
            'pointsman_lower_tier_total{served="SIMPLE",tier="REASONING"} 12.0'
        ]
        assert found.attempts() == [("hard", 0, "breaker"), ("easy", 200, "")]
    assert len(told) == 2  # one while it fails, one while it is not asked
    assert "answered with status 503" in told[0]
    assert "circuit breaker" in told[1]


def test_the_tier_next_below_is_told_as_what_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path, caplog, (answering, ""), (answering, "")) as found:
        assert found.post().headers["x-pointsman-model"] == "hard"
        [line] = found.told()
        assert '"hard" of tier COMPLEX: tier REASONING has no model: COMPLEX comes next' in line
        assert found.post(model="simple").headers["x-pointsman-model"] == "easy"
        lower = 'pointsman_lower_tier_total{served="COMPLEX",tier="REASONING"} 1.0'
        assert found.counted("lower_tier") == [lower]


def test_a_higher_tier_is_not_told_as_a_lower_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path, caplog, (down, ""), (answering, "")) as found:
        got = found.post(model="simple")
        assert got.headers["x-pointsman-model"] == "hard"
        assert found.told("of tier") == []
        assert found.counted("lower_tier") == []


@pytest.mark.parametrize(
    ("first", "last", "status", "expected"),
    [
        (
            refusing,
            down,
            503,
            (
                'upstream "up0" refuses the key it is configured with (status 401); upstream "up1" answered '
                "with status 503: the words of the provider, with ***"
            ),
        ),
        (
            down,
            refusing,
            503,
            (
                'upstream "up1" refuses the key it is configured with (status 401); upstream "up0" answered '
                "with status 503: the words of the provider, with ***"
            ),
        ),
        (
            refusing,
            overloaded,
            429,
            (
                'upstream "up0" refuses the key it is configured with (status 401); upstream "up1" answered '
                "with status 429: slow down"
            ),
        ),
        (down, picky, 400, "the temperature is too high"),
        (picky, down, 400, "the temperature is too high"),
    ],
    ids=["key-down", "down-key", "key-busy", "down-400", "400-down"],
)
def test_an_error_names_every_upstream(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: Any, last: Any, status: int, expected: str
) -> None:
    key = 'api_key = "${KEY}"'
    with serving(tmp_path, caplog, (first, key), (last, key)) as found:
        got = found.post(model="simple")
        assert (got.status_code, got.json()["error"]["message"]) == (status, expected)
        [line] = found.told(f"answered with status {status} after")
    assert "the words of the provider" not in line
    for told in expected.split("; ") if status != 400 else ():
        assert told.partition(": ")[0] in line


def test_the_operators_fault_stays_in_sight_while_the_breaker_is_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, caplog, (refusing, ""), (down, "")) as found:
        for number in range(12):
            got = found.post(model="simple", own={"x-session-id": f"s-{number}"})
            message = got.json()["error"]["message"]
            assert message.startswith('upstream "up0" refuses the key')
            assert 'upstream "up1" answered with status 503' in message, "it is asked as the last one left"
        assert found.told("opened")


def test_a_failing_upstream_is_told_while_a_fallback_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, caplog, (down, ""), (answering, "")) as found:
        for number in range(12):
            own = {"x-session-id": f"s-{number}"}
            assert found.post(model="simple", own=own).status_code == 200
        assert found.told() == [
            'upstream "up0" began to fail: answered with status 503',
            (
                'the circuit breaker of upstream "up0" opened: 10 of the last 10 requests failed, '
                "next try in 5 s; the last: answered with status 503"
            ),
        ]


def test_a_refused_key_is_told_at_once_and_that_it_works_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([refusing, refusing, picky, answering, answering, refusing])

    async def changing(asked: Asked, send: Any) -> None:
        await next(answers)(asked, send)

    with serving(tmp_path, caplog, (changing, ""), (answering, "")) as found:
        for _ in range(6):
            found.post(model="simple")
        assert found.told("began") == [
            'upstream "up0" began to fail: refuses the key it is configured with (status 401)'
        ]
        assert found.told("again") == ['upstream "up0" works again']


@pytest.mark.parametrize(
    ("own", "arrives"), [({}, "2023-06-01"), ({"anthropic-version": "2024-01-01"}, "2024-01-01")]
)
def test_a_native_request_has_a_version(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, own: dict[str, str], arrives: str
) -> None:
    asked: list[Asked] = []

    async def noting(one: Asked, send: Any) -> None:
        asked.append(one)
        await answering(one, send)

    with serving(tmp_path, caplog, (noting, ""), (answering, "")) as found:
        assert found.post(WireFormat.MESSAGES, own, model="simple").status_code == 200
        assert found.post(WireFormat.CHAT, model="simple").status_code == 200
    assert [one.headers.get("anthropic-version") for one in asked] == [arrives, None]


def test_the_hint_names_the_setting_that_left_a_model_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chatty = 'formats = ["chat"]\ntranslate = false'
    with serving(tmp_path, caplog, (answering, chatty), (answering, chatty)) as found:
        message = found.post(WireFormat.MESSAGES).json()["error"]["message"]
    assert message.endswith("what a model can serve is configured: formats and translate of [upstreams]")
