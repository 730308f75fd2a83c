"""Removes blocks that agents wrap around the user's words.

The table names the tags seen on the wire from the agents in use today. A block counts only when it is closed:
the question "what does <file> mean?" is unchanged. Time is linear whatever the text nests or leaves
open: tags are found by one regular expression without backtracking and matched with a stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

__all__ = [
    "BILLING",
    "LEAST",
    "Unwrapped",
    "edge_lines",
    "may_repeat",
    "unwrap",
    "without_lines",
    "without_repeated",
]

#: In the first line of Claude Code's system prompt, which is its own billing record and differs each time.
BILLING: Final = "x-anthropic-billing-header:"


class _Wrap(Enum):
    DROP = "drop"  # nobody's words: the block goes
    OPEN = "open"  # the tags go, the words inside stay
    ONLY = "only"  # the words inside are all the person said; what stands outside goes


_DROPPED: Final = (
    # Claude Code: reminders, slash commands, shell passthrough, IDE state, hooks
    "system-reminder command-name command-message command-contents",
    "local-command-stdout local-command-stderr local-command-caveat",
    "bash-input bash-stdout bash-stderr user-memory-input task-notification",
    "ide_opened_file ide_selection ide_diagnostics new-diagnostics persisted-output",
    "user-prompt-submit-hook session-start-hook post-tool-use-hook tool_use_error",
    # Codex
    "environment_context user_instructions turn_aborted skill image",
    "user_shell_command subagent_notification collaboration_mode app-context",
    # Cursor
    "additional_data attached_files attached_folders image_files current_file",
    "open_and_recently_viewed_files recently_viewed_files edit_diff_history timestamp",
    "user_info project_layout git_status rules user_rules linter_errors system_reminder",
    "agent_transcripts agent_skills mcp_file_system manually_attached_skills",
    # Cline, Roo, Kilo
    "environment_details file_content folder_content url_content explicit_instructions",
    "workspace_diagnostics git_working_state git_commit terminal_output",
    # Copilot, Windsurf, Gemini CLI, OpenHands, opencode, and files pasted the way vendors advise
    "attachments attachment editorcontext reminderinstructions toolreferences environment_info",
    "workspace_info usermemory repomemory sessionmemory conversation-summary additional_metadata",
    "session_context state_snapshot uploaded_files environment env current_datetime",
    "file files file_contents document documents context repo_map directory_tree",
    # earlier turns packed into one message, and results of tools sent as text
    "conversation_history chat_history previous_conversation history transcript",
    "tool_result tool_results tool_response function_results function_result",
)
_TAGS: Final[dict[str, _Wrap]] = {
    **dict.fromkeys(" ".join(_DROPPED).split(), _Wrap.DROP),
    **dict.fromkeys(("task", "instructions", "feedback", "answer", "command-args"), _Wrap.OPEN),
    **dict.fromkeys(("user_query", "userrequest", "user_request", "user_message"), _Wrap.ONLY),
}

_CLOSING: Final = re.compile(r"</([A-Za-z][\w-]*+)\s*+>")
#: Far above what an agent wraps or a pasted page holds (1 MB of HTML: about 20,000). Past them the rest of a
#: text is left as it is; both together take about 15 ms, which leaves a hostile megabyte inside its 50 ms.
_MAX_CLOSING: Final = 30_000
_MAX_TAGS: Final = 10_000


class _Block(NamedTuple):
    name: str
    start: int
    inner: int  # where the opening tag ends
    inner_end: int  # where the closing tag starts
    end: int


class Unwrapped(NamedTuple):
    """The rest of a text."""

    text: str
    tags: tuple[str, ...] = ()  # names of the tags found, sorted
    is_marked: bool = False  # the agent itself says that these are the user's words


def unwrap(text: str, *, only_marked: bool = False) -> Unwrapped:
    """Take the known blocks off a text.

    Args:
        text: One message.
        only_marked: The text is a tool's output, in which only marked words are the person's.
    """
    blocks = _blocks(text) if "</" in text else []
    if not blocks:
        return Unwrapped("" if only_marked else text)
    marks = {_Wrap.ONLY, _Wrap.OPEN} if only_marked else {_Wrap.ONLY}
    spoken = sorted((block.inner, block.inner_end) for block in blocks if _TAGS[block.name] in marks)
    whole = [] if only_marked else [(0, len(text))]
    parts = (part.strip() for part in _without(text, spoken or whole, _cuts(blocks)))
    tags = tuple(sorted({block.name for block in blocks}))
    return Unwrapped("\n\n".join(part for part in parts if part), tags, is_marked=bool(spoken))


def _blocks(text: str) -> list[_Block]:
    """Closed blocks of known tags, not inside a dropped one."""
    closing = {match[1] for match in islice(_CLOSING.finditer(text), _MAX_CLOSING)}
    names = {name.lower() for name in closing} & _TAGS.keys()
    if not names:
        return []
    tag = re.compile(rf"<(/?)({'|'.join(sorted(names))})(?=[\s>])[^<>]*+>", re.IGNORECASE)
    found: list[_Block] = []
    stack: list[tuple[str, int, int]] = []  # open tags: name, start, end
    waiting = dict.fromkeys(names, 0)  # how many of each are on the stack
    for match in islice(tag.finditer(text), _MAX_TAGS):
        name = match[2].lower()
        if not match[1]:
            stack.append((name, match.start(), match.end()))
            waiting[name] += 1
        elif waiting[name]:
            opened = ""
            while opened != name:  # tags left open inside this block are part of its text
                opened, start, inner = stack.pop()
                waiting[opened] -= 1
            if _TAGS[name] is _Wrap.DROP:
                while found and found[-1].start > start:
                    found.pop()
            found.append(_Block(name, start, inner, match.start(), match.end()))
    return found


def _cuts(blocks: list[_Block]) -> list[tuple[int, int]]:
    """The stretches to leave out, in order: whole dropped blocks, and the tags of the others."""
    cuts: list[tuple[int, int]] = []
    for block in blocks:
        if _TAGS[block.name] is _Wrap.DROP:
            cuts.append((block.start, block.end))
        else:
            cuts += (block.start, block.inner), (block.inner_end, block.end)
    return sorted(cuts)


def _without(text: str, spoken: list[tuple[int, int]], cuts: list[tuple[int, int]]) -> list[str]:
    """The spoken stretches, each without its cuts; one inside another is not repeated."""
    parts: list[str] = []
    done = 0
    remaining = iter([*cuts, (len(text), len(text))])
    cut = next(remaining)
    for start, end in spoken:
        position = max(start, done)
        kept: list[str] = []
        while position < end:
            while cut[1] <= position and cut[0] < len(text):
                cut = next(remaining)
            stop = min(max(cut[0], position), end)
            kept.append(text[position:stop])
            position = max(stop, min(cut[1], end)) if stop < end else end
        parts.append("".join(kept))
        done = max(done, end)
    return parts


# Leaves out what nobody wrote: lines at the edges of a message that its client repeats.

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
    """A line, or a block between tags, identified by its tag because its content changes."""

    name: str  # what it is compared by; empty for a blank line
    text: str
    is_block: bool = False


def may_repeat(text: str) -> bool:
    """Whether a text can hold lines of its client and of a person: most are a line, or short."""
    return "\n" in text and (len(text) >= LEAST or text[0] == "<" or text[-1] == ">")


def edge_lines(text: str) -> frozenset[int]:
    """Return the lines at the edges of a text, as hashes of this process."""
    return frozenset(hash(line.name) for line in _lines(text, _joined) if line.name)


def without_lines(text: str, system: str) -> str:
    """Leave out the lines at the edges of a message that the system prompt contains too.

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
    """Yield the lines at both edges; the middle of a long text is one piece without a name."""
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
    """Return the line behind a block; 0 if it is not closed at the end of a line soon."""
    size = 0
    for number in range(place, len(lines)):
        size += len(lines[number])
        if size > _BLOCK:
            return 0
        if closing in lines[number]:
            return number + 1 if lines[number].rstrip().endswith(closing) else 0
    return 0


def _without_edges(lines: Sequence[_Line], is_known: Callable[[_Line], bool]) -> str:
    """Return the text without its known edges; empty if nothing else is left."""
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
