"""What the gateway keeps of reasoning: by session and upstream, for a day, in few bytes."""

from collections.abc import Iterator
from typing import Any

from pointsman.gateway._conversation_memory import ConversationMemory
from pointsman.vocabulary import Role, ToolCall, WireFormat
from pointsman.wire.conversation import Conversation, Message, Part, Result, Text, Thinking
from pointsman.wire.reasoning import SignedTurn, said_before, signed_turn, with_reasoning
from pointsman.wire.tools import call_id

NOW = 1_000.0


def turn(name: str, size: int = 0) -> SignedTurn:
    """The reasoning of a turn with one call."""
    thought = Thinking("x" * max(size, 1), "signature", author=WireFormat.MESSAGES)
    return signed_turn((thought, ToolCall(name, "f", "{}")), b"")


def has(kept: ConversationMemory, session: str, name: str, upstream: str = "a", now: float = NOW) -> bool:
    recall = kept.recall(session, upstream, now)
    return recall is not None and bool(recall(name))


def test_a_turn_is_found_by_session_upstream_and_calls() -> None:
    kept = ConversationMemory()
    kept.keep_turn("s", "a", turn("call_1"), NOW)
    assert has(kept, "s", "call_1")
    assert not has(kept, "s", "call_2")
    assert not has(kept, "s", "call_1", upstream="b")
    assert not has(kept, "t", "call_1")


def test_it_is_forgotten_after_a_day() -> None:
    kept = ConversationMemory()
    kept.keep_turn("s", "a", turn("call_1"), NOW)
    assert has(kept, "s", "call_1", now=NOW + 86_000)
    assert not has(kept, "s", "call_1", now=NOW + 87_000)
    assert kept.held == 0


#: Bytes of a session with the authors of a call and of the words before it; and of a turn beside its words.
SESSION, TURN = 1_000 + 2 * 150, 500 + len("c1") + len("signature")


def test_the_session_unused_longest_makes_room() -> None:
    kept = ConversationMemory(size=100_000)
    for number in range(20):
        kept.keep_turn(f"s{number}", "a", turn("c1", 5_000 - SESSION - TURN), NOW)
        assert has(kept, "s0", "c1")
    assert kept.held == 100_000
    kept.keep_turn("s20", "a", turn("c1"), NOW)
    assert has(kept, "s0", "c1")
    assert not has(kept, "s1", "c1")
    assert kept.held <= 100_000


def test_one_session_takes_a_quarter_at_most() -> None:
    kept = ConversationMemory(size=40_000)
    for number in range(20):
        kept.keep_turn("s", "a", turn(f"c{number}", 2_000), NOW)
        assert kept.held <= 10_000
    found = [has(kept, "s", f"c{n}") for n in range(20)]
    assert found == sorted(found), "the latest ones"
    assert 1 <= found.count(True) < 4
    kept.keep_turn("s", "a", turn("big", 20_000), NOW)
    assert not has(kept, "s", "big"), "one that is larger than its room is not kept"
    assert kept.held < 10_000


def test_the_same_turn_twice_is_kept_once() -> None:
    kept = ConversationMemory()
    for _ in range(3):
        kept.keep_turn("s", "a", turn("c1"), NOW)
    assert kept.held == SESSION + TURN + 1


def test_the_authors_of_a_long_session_are_bounded() -> None:
    kept = ConversationMemory(size=40_000)
    kept.keep_turn("s", "a", SignedTurn("c1", (), tuple(map(str, range(1_000)))), NOW)
    assert 9_000 < kept.held <= 10_000


def test_a_full_session_is_not_read_to_its_end_for_each_block() -> None:
    read: list[object] = []

    class Read(dict[bytes, str]):
        def __iter__(self) -> Iterator[bytes]:
            for each in super().__iter__():
                read.append(each)
                yield each

        def items(self) -> Any:
            return ((each, self[each]) for each in self)

    kept = ConversationMemory(size=4_000_000)
    kept.keep_turn("s", "a", SignedTurn("c1", (), tuple(map(str, range(10_000)))), NOW)
    session = kept._take("s", NOW)
    session.authors = Read(session.authors)
    read.clear()
    kept._put_back("s", session)
    for number in range(10):
        kept.keep_turn("s", "a", SignedTurn("c1", (), (f"more {number}",)), NOW)
    assert 990_000 < kept.held <= 1_000_000
    assert 10 <= len(read) <= 100


def restored(
    parts: tuple[Part, ...],
    sent_back: tuple[Part, ...],
    asked: tuple[Message, ...] = (),
    sent_before: tuple[Message, ...] | None = None,
) -> tuple[Part, ...]:
    """The parts of a turn in the next request, as its provider gets them.

    ``asked`` are the messages before the turn, ``sent_before`` those in the next request if they are others.
    """
    found = signed_turn(parts, said_before(asked))
    before = asked if sent_before is None else sent_before
    turns = {found.key: found.reasoning}
    conversation = Conversation(model="m", messages=(*before, Message(Role.ASSISTANT, sent_back)))
    return with_reasoning(conversation, lambda key: turns.get(key, ())).messages[-1].parts


A, B = ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")
ONE = Thinking("one", "1", author=WireFormat.MESSAGES)
TWO = Thinking("two", "2", author=WireFormat.MESSAGES)


def test_reasoning_is_put_back_in_its_place() -> None:
    assert restored((ONE, A, TWO, B), (A, B)) == (ONE, A, TWO, B)
    assert restored((ONE, Text("hi"), TWO, A), (Text("hi"), A)) == (ONE, Text("hi"), TWO, A)
    assert restored((ONE, Text("hi"), A, TWO), (Text("hi"), A)) == (ONE, Text("hi"), A, TWO)


def test_what_the_caller_holds_of_it_makes_room() -> None:
    assert restored((ONE, A), (Thinking("one"), A)) == (ONE, A)


def test_a_turn_without_calls_is_known_by_its_words() -> None:
    parts = (ONE, Text("two  words\n"))
    assert restored(parts, (Text("two words"),)) == (ONE, Text("two words"))
    assert restored(parts, (Text("two "), Text("words"))) == (ONE, Text("two "), Text("words"))
    assert restored(parts, (Text("other words"),)) == (Text("other words"),)


def test_ids_of_calls_are_compared_as_every_format_may_write_them() -> None:
    odd = ToolCall("functions.f:0", "f", "{}")
    written = ToolCall(call_id(odd.id), "f", "{}")
    assert written != odd
    assert restored((ONE, odd), (odd,)) == (ONE, odd)
    assert restored((ONE, odd), (written,)) == (ONE, written)


def test_reasoning_that_nobody_signed_is_not_kept() -> None:
    assert signed_turn((Thinking("hm"), Text("hi")), b"").reasoning == ()


def user(*parts: Part) -> Message:
    return Message(Role.USER, parts)


def test_the_same_words_elsewhere_are_another_turn() -> None:
    """People who begin alike share a session where nobody names one; they never share reasoning."""
    done, hello = (ONE, Text("Done.")), user(Text("hello"))
    mine, yours = user(Text("delete my file")), user(Text("delete yours"))
    assert restored(done, done[1:], (hello, mine)) == done
    assert restored(done, done[1:], (hello, mine), (hello, yours)) == done[1:]
    assert restored(done, done[1:], (hello, mine), (mine,)) == done[1:]
    called, result = Message(Role.ASSISTANT, (A,)), user(Result.of("a", (Text("ok"),)))
    assert restored(done, done[1:], (called, result)) == done
    others = Message(Role.ASSISTANT, (B,)), user(Result.of("b", (Text("ok"),)))
    assert restored(done, done[1:], (called, result), others) == done[1:]


def test_a_turn_with_calls_is_known_wherever_it_stands() -> None:
    assert restored((ONE, A), (A,), (user(Text("a")),), (user(Text("a summary")),)) == (ONE, A)
