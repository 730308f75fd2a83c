"""One client: the marks of its requests, and the place of its working directory."""

from __future__ import annotations

from typing import NamedTuple

from pointsman.vocabulary import Purpose

__all__ = ["Client", "Mark"]


class Mark(NamedTuple):
    """The marks of one kind of request. All that are given must be there; of several texts, any."""

    purpose: Purpose
    shown: str  # what is seen, for a person
    system: tuple[str, ...] = ()  # near the beginning of the system prompt
    inside: str = ""  # anywhere in the system prompt
    words: tuple[str, ...] = ()  # the client's own text in the last user message begins so
    notes: tuple[str, ...] = ()  # in a system message beside it
    header: tuple[bytes, bytes] | None = None  # name, and what its value holds
    without_tools: bool = False
    output: int = 0  # most tokens of an answer, at most so many
    is_main: bool = False  # a turn of the conversation all the same


class Client(NamedTuple):
    """One client. Its requests change with its versions: ``read`` names those that were examined, and how."""

    name: str
    read: str
    marks: tuple[Mark, ...]  # the first that matches counts
    subagents: tuple[bytes, ...] = ()  # headers that its sub-agents alone send
    stated_subagents: tuple[tuple[bytes, bytes], ...] = ()  # header and value by which a sub-agent is stated
    #: By what its requests are known: one of these headers, the beginning of the user agent, or a text near
    #: the beginning of the system prompt. The words of its marks count in its own requests alone.
    headers: tuple[bytes, ...] = ()
    agent: bytes = b""
    system: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()  # what stands before the working directory; the first found counts
