"""Texts that were added to a conversation stay with their message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.decision.decision import Injection, StandingInjection
from pointsman.decision.memory import MOST_CHARACTERS, MOST_PLACES, Additions, remember, standing
from pointsman.text.extract import fingerprint
from pointsman.vocabulary import Message, WireFormat
from pointsman.wire.request import JsonHistory

HINT, DOMAIN = Injection("guidance", "look at the error"), Injection("domains", "Domain: bugfix")


def history(*texts: str) -> JsonHistory:
    """A person and a model in turns."""
    roles = ("user", "assistant")
    items = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
    return JsonHistory.of(WireFormat.CHAT, items)


def after(*steps: tuple[tuple[str, ...], tuple[Injection, ...]]) -> Additions:
    """What is remembered of some requests, each a history and what was added to its last message."""
    additions = Additions()
    for texts, added in steps:
        additions, _ = remember(additions, history(*texts), added)
    return additions


KEPT = after((("a",), (HINT,)), (("a", "b", "c"), (DOMAIN, HINT)))
BOTH = (StandingInjection(0, (HINT,)), StandingInjection(2, (DOMAIN, HINT)))


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (("a", "b", "c"), BOTH),
        (("a", "b", "c", "d", "e"), BOTH),
        (("a",), BOTH[:1]),
        (("a", "b"), BOTH[:1]),
        (("x", "b", "c"), BOTH[1:]),  # the first message was edited
        (("summary", "d"), ()),  # compacted
        ((), ()),
        # One message put in before: both have moved.
        (("notice", "a", "b", "c"), (StandingInjection(1, (HINT,)), StandingInjection(3, (DOMAIN, HINT)))),
        (("n",) * 4 + ("a",), (StandingInjection(4, (HINT,)),)),
        (("n",) * 5 + ("a",), ()),  # farther than any agent puts in of its own
    ],
)
def test_what_is_added_again(texts: tuple[str, ...], found: tuple[StandingInjection, ...]) -> None:
    # A message keeps its role, which is part of what tells it from others.
    items = [{"role": "assistant" if text in {"b", "d"} else "user", "content": text} for text in texts]
    assert standing(KEPT, JsonHistory.of(WireFormat.CHAT, items)) == found


def test_a_text_is_kept_once() -> None:
    assert KEPT.texts == (HINT, DOMAIN)


def test_nothing_is_remembered_of_nothing() -> None:
    assert remember(Additions(), history(), (HINT,)) == (Additions(), 0)
    assert remember(KEPT, history("a"), ()) == (KEPT, 0)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2_000)), max_size=150))
def test_memory_is_bounded_and_what_is_dropped_is_counted(added: list[tuple[int, int]]) -> None:
    additions, made, gone = Additions(), 0, 0
    for number, (name, size) in enumerate(added):
        texts = [str(each) for each in range(2 * number + 1)]
        injection = Injection("domains", f"{name}:{'x' * size}")
        additions, dropped = remember(additions, history(*texts), (injection,))
        made, gone = made + 1, gone + dropped
        assert len(additions.places) == made - gone <= MOST_PLACES
        assert sum(len(each.text) for each in additions.texts) <= MOST_CHARACTERS
        assert {number for place in additions.places for number in place.texts} == set(
            range(len(additions.texts))
        )
        [newest] = standing(additions, history(*texts))[-1].added
        assert newest == injection


def test_each_message_is_read_once_for_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places whose message has gone are looked for near where it stood: each of them at the same few."""
    additions = Additions()
    for number in range(MOST_PLACES):
        additions, _ = remember(additions, history("a", "b", f"gone {number}"), (HINT,))
    read: list[int] = []

    def counting(message: Message) -> str:
        read.append(1)
        return fingerprint(message)

    monkeypatch.setattr("pointsman.decision.memory.fingerprint", counting)
    assert standing(additions, history("a", "b", "c", "d", "e", "f", "g")) == ()
    assert len(read) <= 7
