"""The filter for Open WebUI, called as its published function interface says, without the program."""

import asyncio
import importlib.util
import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pointsman import Pointsman
from pointsman.integrations.open_webui import ChatFilter
from pointsman.vocabulary import WireFormat
from support.hosts import HARD, PATIENCE, FailingPoints, SlowPoints, not_there, two_models
from support.stuck_agents import requests

FILE = Path(__file__).parents[2] / "integrations" / "open_webui" / "pointsman_filter.py"
MODELS = {"simple": "llama", "large": "gpt"}


@dataclass
class Rating:
    """As ``open_webui.models.feedbacks.FeedbackModel``."""

    id: str
    data: dict[str, Any] | None
    meta: dict[str, Any] | None
    updated_at: int = 1


class Database:
    """The ratings of users, as ``Feedbacks.get_feedbacks_by_user_id`` returns them; counts the looks."""

    def __init__(self, *, is_async: bool) -> None:
        self.ratings: list[Rating] = []
        self.looks = 0
        self.is_async = is_async

    def __call__(self, user: str) -> Any:
        self.looks += 1
        assert user == "u1"
        return self._later() if self.is_async else list(self.ratings)

    async def _later(self) -> list[Rating]:
        return list(self.ratings)

    def rate(self, message: str, rating: object, *, at: int = 1, **more: str) -> None:
        about = {"message_id": message, "chat_id": "c1"}
        self.ratings = [each for each in self.ratings if each.meta != about]
        self.ratings.append(Rating(f"r-{message}", {"rating": rating, **more}, about, at))


@pytest.fixture
def points(tmp_path: Path) -> Iterator[Pointsman]:
    with two_models(tmp_path) as points:
        yield points


def sent(chat: ChatFilter, text: str, message: str = "m1", **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "chosen",
        "messages": [{"role": "user", "content": text}],
        "stream": True,
    }
    body |= more
    before = str(body)
    changed = asyncio.run(chat.inlet(body, {"id": "u1"}, {"chat_id": "c1", "message_id": message}))
    assert str(body) == before
    return changed


def test_a_message_goes_to_the_model_of_its_tier(points: Pointsman) -> None:
    chat = ChatFilter(MODELS, points, timeout=PATIENCE)
    assert [sent(chat, text)["model"] for text in ("Hello!", HARD)] == ["llama", "gpt"]
    assert sent(chat, HARD)["stream"] is True
    points.runtime.ledger.flush()
    given = next(iter(points.runtime.ledger.decisions(limit=None))).input
    assert (given.session, given.caller) == ("u1/c1", "u1")


def test_a_model_that_no_decision_can_name_is_logged(
    points: Pointsman, caplog: pytest.LogCaptureFixture
) -> None:
    sent(ChatFilter({**MODELS, "complx": "gpt"}, lambda: points, timeout=PATIENCE), "Hello!")
    [told] = [each.getMessage() for each in caplog.records if each.name == "pointsman.integrations"]
    assert told.startswith('Open WebUI never asks the models named "complx"')


def test_hints_are_added_to_what_the_model_gets(points: Pointsman) -> None:
    chat = ChatFilter({}, points, timeout=PATIENCE)
    got = [
        str(sent(chat, "", messages=messages)).count("<pointsman")
        for messages in requests(WireFormat.CHAT, 8)
    ]
    assert got[0] == 0
    assert got[-1] >= 1
    assert got == sorted(got)


def test_a_tier_without_a_model_stays_with_the_chosen_one(points: Pointsman) -> None:
    assert sent(ChatFilter({"simple": "llama"}, points, timeout=PATIENCE), HARD)["model"] == "chosen"
    bare = asyncio.run(ChatFilter({}, points, timeout=PATIENCE).inlet({"messages": []}, None, None))
    assert bare == {"messages": []}


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "coroutine"])
def test_thumbs_become_outcomes(points: Pointsman, is_async: bool) -> None:
    clock, database = [0.0], Database(is_async=is_async)
    chat = ChatFilter(MODELS, points, ratings=database, timeout=PATIENCE, clock=lambda: clock[0])
    sent(chat, HARD, "m1")
    sent(chat, "Hello!", "m2")
    database.rate("m1", 1, reason="accurate_information", comment="x" * 5_000)
    database.rate("m2", "-1")
    database.rate("m3", 1)  # of another filter, or of before
    database.rate("m4", None)
    clock[0] = 31.0
    sent(chat, "And now?", "m5")
    clock[0] = 62.0
    sent(chat, "And now?", "m6")  # nothing is reported again
    ledger = points.runtime.ledger
    ledger.flush()
    decided = [each.id for each in ledger.decisions(limit=None)][::-1]
    found = [[(each.score, each.label) for each in ledger.outcomes(one)] for one in decided]
    assert found == [[(1.0, "accurate_information")], [(0.0, "")], [], []]
    database.rate("m1", -1, at=2)  # a change of mind
    clock[0] = 93.0
    sent(chat, "And now?", "m7")
    ledger.flush()
    assert [each.score for each in ledger.outcomes(decided[0])] == [1.0, 0.0]


def test_ratings_are_looked_up_twice_a_minute_at_most(points: Pointsman) -> None:
    clock, database = [0.0], Database(is_async=False)
    chat = ChatFilter(MODELS, points, ratings=database, timeout=PATIENCE, clock=lambda: clock[0])
    for second in range(0, 70, 10):
        clock[0] = float(second)
        sent(chat, "Hello!", f"m{second}")
    assert database.looks == 2


def test_ratings_that_cannot_be_read_keep_no_message_back(
    points: Pointsman, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(user: str) -> Any:
        raise OSError("the database is locked")

    clock = [0.0]
    chat = ChatFilter(MODELS, points, ratings=broken, timeout=PATIENCE, clock=lambda: clock[0])
    for second in (0.0, 31.0, 62.0):
        clock[0] = second
        assert sent(chat, HARD)["model"] == "gpt"
    assert chat.host.failures == {"OSError": 2}
    assert sum("the database is locked" in each.getMessage() for each in caplog.records) == 1


@pytest.mark.parametrize("points", [FailingPoints, SlowPoints, not_there], ids=["raises", "slow", "absent"])
def test_the_chosen_model_answers_where_there_is_no_decision(
    points: Any, caplog: pytest.LogCaptureFixture
) -> None:
    chat = ChatFilter(MODELS, points, timeout=0.01 if points is SlowPoints else PATIENCE)
    with closing(chat.host), caplog.at_level(logging.WARNING, "pointsman.integrations"):
        assert [sent(chat, HARD)["model"] for _ in range(2)] == ["chosen", "chosen"]
    assert sum("goes on with its own choice" in each.getMessage() for each in caplog.records) == 1


def test_the_file_that_is_installed(points: Pointsman, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open WebUI makes one ``Filter``, sets ``valves`` before each call, and passes what ``inlet`` names."""
    pytest.importorskip("pydantic")
    spec = importlib.util.spec_from_file_location("pointsman_filter", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: list[Any] = []

    def chat_filter(models: Any, **named: Any) -> ChatFilter:
        made.append((models, named["hints"]))
        return ChatFilter(models, points, timeout=PATIENCE, hints=named["hints"])

    monkeypatch.setattr(module, "ChatFilter", chat_filter)
    function = module.Filter()
    body = {"model": "chosen", "messages": [{"role": "user", "content": HARD}]}
    assert asyncio.run(function.inlet(body))["model"] == "chosen"
    for _ in range(2):
        function.valves = function.Valves(reasoning="strong", hints=False)
        assert asyncio.run(function.inlet(body, __user__={"id": "u1"}))["model"] == "strong"
    assert made == [({}, True), ({"reasoning": "strong"}, False)]
    assert FILE.read_text(encoding="utf-8").startswith('"""\ntitle: Pointsman\n')
