"""Leaves out what nobody wrote: lines at the edges of a message that its client repeats.

A client adds lines before or behind a person's words: how the answer is to be formatted, the time, the state
of an editor. They say nothing of the task, and would decide its tier. Two things give them away without
knowing the client: the system prompt holds the same lines, or messages before this one did. Only the edges of
a message are looked at, short repetitions stay, and a message is never left out as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["LEAST", "edge_lines", "may_repeat", "without_lines", "without_repeated"]

#: Characters of an edge from which on it is left out: people repeat a sentence or two as well.
LEAST: Final = 100
#: Lines at each edge that are looked at.
_LINES: Final = 128
#: Characters of a system prompt in which lines are looked for; that of Qwen Code has 38,000.
_SYSTEM: Final = 100_000
#: Characters of a block between tags that counts as one line.
_BLOCK: Final = 20_000
#: A tag of an agent's own. HTML's elements have neither an underscore nor, without a script, a hyphen.
_OPENING: Final = re.compile(r"<([a-z][a-z0-9]*+(?:[_-][a-z0-9]++)++)>")


class _Line(NamedTuple):
    """A line, or a block between tags, which is known by its tag: what stands inside changes."""

    name: str  # what it is compared by; empty for a blank line
    text: str
    is_block: bool = False


def may_repeat(text: str) -> bool:
    """Whether a text can hold lines of its client beside a person's: most are a line, or short."""
    return "\n" in text and (len(text) >= LEAST or text[0] == "<" or text[-1] == ">")


def edge_lines(text: str) -> frozenset[int]:
    """Return the lines at the edges of a text, as hashes of this process."""
    return frozenset(hash(line.name) for line in _lines(text, _joined) if line.name)


def without_lines(text: str, system: str) -> str:
    """Leave out the lines at the edges of a message that stand in the system prompt too.

    Args:
        text: The message.
        system: The system prompt.
    """
    if not may_repeat(text) or not system:
        return text
    first, last = text[: text.find("\n")], text[text.rfind("\n") + 1 :]
    if first not in system and last not in system:
        return text
    padded = f"\n{system[:_SYSTEM]}\n"
    lines = list(_lines(text, _plain))
    return _without_edges(lines, lambda line: f"\n{line.text.rstrip()}\n" in padded) or text


def without_repeated(text: str, repeated: frozenset[int]) -> str:
    """Leave out the lines at the edges of a message that earlier messages of its client held.

    Args:
        text: The message.
        repeated: Those lines, as ``edge_lines`` gives them.
    """
    if not repeated or not may_repeat(text):
        return text
    return _without_edges(list(_lines(text, _joined)), lambda line: hash(line.name) in repeated) or text


def _lines(text: str, read: Callable[[Sequence[str]], Iterable[_Line]]) -> Iterator[_Line]:
    """Yield the lines at both edges; the middle of a long text is one piece, which is known to nobody."""
    head = text.split("\n", _LINES)
    if len(head) <= _LINES:
        yield from read(head)
        return
    tail = head.pop().rsplit("\n", _LINES)
    if len(tail) <= _LINES:
        yield from read(head + tail)
        return
    yield from read(head)
    yield _Line("", tail[0], is_block=True)
    yield from read(tail[1:])


def _plain(lines: Sequence[str]) -> Iterator[_Line]:
    """Yield lines as they are."""
    return (_Line(line.strip(), line) for line in lines)


def _joined(lines: Sequence[str]) -> Iterator[_Line]:
    """Yield lines, and as one those from an opening tag to the line that ends with the closing one."""
    place = 0
    while place < len(lines):
        line = lines[place]
        tag = _OPENING.match(line.lstrip())
        end = _block_end(lines, place, f"</{tag[1]}>") if tag else 0
        if tag and end:
            yield _Line(tag[0], "\n".join(lines[place:end]), is_block=True)
            place = end
        else:
            yield _Line(line.strip(), line)
            place += 1


def _block_end(lines: Sequence[str], place: int, closing: str) -> int:
    """Return the line behind a block; 0 where it is not closed at the end of a line soon."""
    size = 0
    for number in range(place, len(lines)):
        size += len(lines[number])
        if size > _BLOCK:
            return 0
        if closing in lines[number]:
            return number + 1 if lines[number].rstrip().endswith(closing) else 0
    return 0


def _without_edges(lines: Sequence[_Line], is_known: Callable[[_Line], bool]) -> str:
    """Return the text without its known edges; empty where nothing else is left."""
    start = _edge(lines, is_known)
    end = len(lines) - _edge(lines[::-1], is_known)
    return "\n".join(line.text for line in lines[start:end]).strip() if start < end else ""


def _edge(lines: Sequence[_Line], is_known: Callable[[_Line], bool]) -> int:
    """Return how many lines at the beginning are known, blank ones between them included; 0: too few."""
    count = characters = 0
    has_block = False
    for number, line in enumerate(lines, 1):
        if not line.name:
            if line.is_block:
                break
            continue
        if not is_known(line):
            break
        count = number
        characters += len(line.text)
        has_block = has_block or line.is_block
    return count if has_block or characters >= LEAST else 0
