"""Lines that a client repeats at the edges of a message are left out, and a person's words never are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.text import extract
from pointsman.text.wrappers import LEAST, edge_lines, may_repeat, without_lines, without_repeated
from pointsman.vocabulary import WireFormat
from pointsman.wire.request import read_request

RULES = "# Rules of the answer:\n\nEvery block must use this format:\n1. the path alone\n2. never omit a line"
REMINDER = f"{RULES}\n3. create each file with its whole content"
SYSTEM = f"You write code.\n\n{REMINDER}\n\nReply in English."
LONG = "Explain in detail why this happens, and what would have to change so that it never happens again. "
PASTED = "\n".join(f"line {number} of a file that a person shows" for number in range(10))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"hello\n\n{REMINDER}", "hello"),
        (f"{REMINDER}\n\nhello", "hello"),
        (f"{REMINDER}\n\nhello\nyou\n\n{REMINDER}\n", "hello\nyou"),
        (f"hello\n{REMINDER}\n\n", "hello"),
        # near misses
        ("hello\n\n# Rules of the answer:", "hello\n\n# Rules of the answer:"),  # a sentence or two
        (REMINDER, REMINDER),  # nothing would be left
        (f"{REMINDER}\n\n{REMINDER}", f"{REMINDER}\n\n{REMINDER}"),
        (f"before\n{REMINDER}\nbehind", f"before\n{REMINDER}\nbehind"),  # in the middle
        (f"hello\n\n{REMINDER.upper()}", f"hello\n\n{REMINDER.upper()}"),
        (f"hello {REMINDER}", f"hello {RULES.splitlines()[0]}"),  # the first line is the person's too
        (LONG * 3, LONG * 3),
        (f"fix this\n\n{PASTED}", f"fix this\n\n{PASTED}"),
    ],
)
def test_lines_of_the_system_prompt_are_left_out(text: str, left: str) -> None:
    assert without_lines(text, SYSTEM) == left


def test_a_word_of_the_system_prompt_is_no_line_of_it() -> None:
    """A line counts as a whole: "code" stands within one."""
    assert without_lines(f"code\n\n{REMINDER}", SYSTEM) == "code"


def test_without_a_system_prompt_everything_stays() -> None:
    assert without_lines(f"hello\n\n{REMINDER}", "") == f"hello\n\n{REMINDER}"


@pytest.mark.parametrize(
    ("earlier", "text", "left"),
    [
        (f"hello\n\n{REMINDER}", f"prove it\n\n{REMINDER}", "prove it"),
        ("<now_utc>1</now_utc>\n\nhello", "<now_utc>2</now_utc>\n\nprove it", "prove it"),
        ("<my_env>\n1\n</my_env>\nhello", "<my_env>\n2\n3\n</my_env>\nprove it", "prove it"),
        ("hello\n<my-env>1</my-env>", "prove it\n<my-env>2</my-env>", "prove it"),
        # near misses
        ("hello\n\nplease be brief", "prove it\n\nplease be brief", "prove it\n\nplease be brief"),
        (
            "<div>1</div>\nhello",
            "<div>1</div>\nprove it",
            "<div>1</div>\nprove it",
        ),  # HTML is somebody's work
        ("<my_env>1</my_env>\nhello", "<my_env>2\nprove it", "<my_env>2\nprove it"),  # not closed
        ("<my_env>1</my_env>\nhello", "<my_env>2</my_env> prove\nit", "<my_env>2</my_env> prove\nit"),
        ("<my_env>1</my_env>\nhello", "<my_env>prove\nit</my_env>", "<my_env>prove\nit</my_env>"),
    ],
)
def test_lines_of_earlier_messages_are_left_out(earlier: str, text: str, left: str) -> None:
    assert without_repeated(text, edge_lines(earlier)) == left


def test_the_middle_of_a_long_text_is_not_looked_at() -> None:
    text = "\n".join(f"line {number}" for number in range(1_000))
    lines = edge_lines(text)
    assert len(lines) == 256
    assert without_repeated(f"{text}\nmore", lines) == "\n".join([*text.splitlines()[128:], "more"])


def test_of_a_long_message_128_lines_at_each_edge_are_compared() -> None:
    """A message of a million lines that all stand in the system prompt costs no more."""
    lines = [f"line {number} of something" for number in range(1_000)]
    left = without_lines("\n".join([*lines, "more", *lines]), "\n".join(lines)).split("\n")
    assert left == [*lines[128:], "more", *lines[:-128]]


@given(st.lists(st.sampled_from(["a", "", "<x_y>", "</x_y>", "b" * LEAST, "é", " c"]), max_size=12))
def test_what_is_left_was_there_and_is_never_nothing(lines: list[str]) -> None:
    text = "\n".join(lines).strip()
    if not text:
        return
    for left in (
        without_lines(text, "a\nb\n" + "b" * LEAST),
        without_repeated(text, edge_lines(text)) if may_repeat(text) else text,
        without_repeated(text, edge_lines("\n".join(reversed(lines)))),
    ):
        assert left
        assert left in text


def test_the_identity_of_a_message_does_not_depend_on_what_is_left_out() -> None:
    body = {
        "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": f"hi\n\n{REMINDER}"}]
    }
    plain = read_request(WireFormat.CHAT, body)
    learned = type(plain)(
        **{name: getattr(plain, name) for name in plain.__struct_fields__}
        | {"repeated": edge_lines(REMINDER)}
    )
    assert extract(learned).text == "hi"
    assert extract(learned).left_out == len(REMINDER) + 2
    assert extract(learned).key == extract(plain).key
