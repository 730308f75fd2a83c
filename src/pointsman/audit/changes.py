"""From audit to use: the changes worth most on these logs, and the command for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pointsman.audit.figures import SessionFigures
from pointsman.audit.sure import HOUSEKEEPING_CHANGE, MOVES_CHANGE, STUCK_CHANGE, TOOLS_CHANGE
from pointsman.audit.verdict import Verdict, dollars
from pointsman.printable import Block

__all__ = ["Change", "changes", "changes_blocks"]

_MOST: Final = 3
#: Dollars below which a change is not worth a line.
_LEAST: Final = 0.005
#: Clients whose hooks can add a hint.
_HOOKS: Final = frozenset({"claude-code", "codex"})
_GATEWAY: Final = "pointsman config init && pointsman serve"
#: Tools that are named in a command.
_TOOLS: Final = 8


class Change(NamedTuple):
    """One change."""

    what: str
    worth: str  # with its certainty
    command: str


def changes(found: Verdict, sessions: Sequence[SessionFigures]) -> tuple[Change, ...]:
    """Name at most three changes: what is sure first, then what outcomes show, then how to learn the rest."""
    made = [*_sure(found, sessions), *_outcomes(found), *_unknown(found)]
    return tuple(made[:_MOST])


def changes_blocks(made: Sequence[Change]) -> Iterator[Block]:
    """Changes as lines, so that a command can be copied."""
    if made:
        yield ""
        yield "The changes worth most on these logs:"
    for at, each in enumerate(made, start=1):
        yield f"{at}. {each.what} ({each.worth})"
        yield f"   {each.command}"


def _sure(found: Verdict, sessions: Sequence[SessionFigures]) -> Iterator[Change]:
    for each in found.sure:
        if each.dollars < _LEAST:
            continue
        yield Change(each.what, f"{dollars(each.dollars)}, sure", _command(each.what, sessions))


def _command(what: str, sessions: Sequence[SessionFigures]) -> str:
    match what:
        case _ if what == STUCK_CHANGE:
            client = _most(Counter(of.client for of in sessions if of.stuck))
            return f"pointsman hook {client} install" if client in _HOOKS else _GATEWAY
        case _ if what == TOOLS_CHANGE:
            return _without_tools(sessions)
        case _ if what == HOUSEKEEPING_CHANGE:
            return f"{_GATEWAY} (it serves them with tier SIMPLE)"
        case _ if what == MOVES_CHANGE:
            return f"{_GATEWAY} (it counts the loss of a cache before it changes the model)"
    return _GATEWAY


def _without_tools(sessions: Sequence[SessionFigures]) -> str:
    called = {name for of in sessions for name in of.calls_by_tool}
    unused: Counter[str] = Counter()
    clients: Counter[str] = Counter()
    for of in sessions:
        unused.update({name: size for name, size in of.unused_tools.items() if name not in called})
        clients[of.client] += sum(of.unused_tools.values())
    names = ",".join(name for name, _ in unused.most_common(_TOOLS))
    client = _most(clients)
    if client == "claude-code":
        return f'claude --disallowedTools "{names}"'
    return f"switch off in the settings of {client}: {names}"


def _most(counted: Counter[str]) -> str:
    return counted.most_common(1)[0][0] if counted else ""


def _outcomes(found: Verdict) -> Iterator[Change]:
    for each in found.claimed:
        low, high = each.saved
        yield Change(
            f"use {each.cheap} in place of {each.dear}, in the projects compared",
            f"{dollars(low)} to {dollars(high)}, by outcomes",
            f"{_GATEWAY}, with {each.cheap} as the model of tier COMPLEX",
        )


def _unknown(found: Verdict) -> Iterator[Change]:
    for each in found.stakes:
        yield Change(
            f"learn whether {each.cheap} would do the work of {each.dear}",
            f"unknown, {dollars(each.dollars)} at stake",
            f'{_GATEWAY}, with [shadow] model = "{each.cheap}"',
        )
