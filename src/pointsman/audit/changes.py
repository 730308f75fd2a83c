"""From audit to use: the changes worth most on these logs, and the command for each."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pointsman.audit.figures import SessionFigures
from pointsman.audit.sure import HOUSEKEEPING_CHANGE, MOVES_CHANGE, STUCK_CHANGE, TOOLS_CHANGE
from pointsman.audit.verdict import Stake, Verdict, amount, amounts
from pointsman.printable import Block

__all__ = ["Change", "changes", "changes_blocks"]

_MOST: Final = 3
#: Dollars below which a change is not worth a line.
_LEAST: Final = 0.005
#: Prints, or installs, what adds a hint to an agent that is stuck, by client.
_PLUGINS: Final = "~/.config/opencode/plugin"
_HOOKS: Final = {
    "claude-code": ("add the settings that this prints", "pointsman hook claude-code install"),
    "codex": ("add the settings that this prints", "pointsman hook codex install"),
    "opencode": (
        "a plugin adds it",
        f"mkdir -p {_PLUGINS} && pointsman hook opencode install > {_PLUGINS}/pointsman.js",
    ),
}
#: Tools that are named in a command.
_TOOLS: Final = 8


class Change(NamedTuple):
    """One change."""

    what: str
    worth: str  # with its certainty
    command: str  # one line of a shell that runs as it is


def changes(
    found: Verdict, sessions: Sequence[SessionFigures], arguments: str = "--from-audit"
) -> tuple[Change, ...]:
    """Name at most three changes: sure savings first, then savings shown by outcomes, then experiments.

    Args:
        found: Known savings.
        sessions: The sessions read.
        arguments: With which ``config init`` reads the same logs, as words of a shell.
    """
    made = [*_sure(found, sessions, arguments), *_outcomes(found, arguments), *_unknown(found, arguments)]
    return tuple(made[:_MOST])


def changes_blocks(made: Sequence[Change]) -> Iterator[Block]:
    """Changes as lines, so that a command can be copied."""
    if made:
        yield ""
        yield "The changes worth most on these logs:"
    for at, each in enumerate(made, start=1):
        yield f"{at}. {each.what} ({each.worth})"
        yield f"   {each.command}"


def _gateway(arguments: str) -> str:
    return f"pointsman config init {arguments} && pointsman serve"


def _sure(found: Verdict, sessions: Sequence[SessionFigures], arguments: str) -> Iterator[Change]:
    for each in found.sure:
        if each.dollars < _LEAST:
            continue
        how, command = _command(each.what, sessions, _gateway(arguments))
        worth = amount(each.dollars, each.worth)
        if each.what == STUCK_CHANGE:  # a hint stops nothing
            yield Change(f"a hint when an agent is stuck: {how}", f"at most {worth}", command)
        else:
            yield Change(f"{each.what}: {how}", f"{worth}, sure", command)


def _command(what: str, sessions: Sequence[SessionFigures], gateway: str) -> tuple[str, str]:
    """How a change is made, and the command."""
    match what:
        case _ if what == STUCK_CHANGE:
            client = _most(Counter(of.client for of in sessions if of.stuck))
            return _HOOKS.get(client, ('the gateway adds it with [guidance] mode = "on"', gateway))
        case _ if what == TOOLS_CHANGE:
            return _without_tools(sessions, gateway)
        case _ if what == HOUSEKEEPING_CHANGE:
            return "the gateway serves them with tier SIMPLE", gateway
        case _ if what == MOVES_CHANGE:
            return "the gateway counts the loss of a cache before it changes the model", gateway
    return "through the gateway", gateway


def _without_tools(sessions: Sequence[SessionFigures], gateway: str) -> tuple[str, str]:
    called = {name for of in sessions for name in of.calls_by_tool}
    unused: Counter[str] = Counter()
    clients: Counter[str] = Counter()
    for of in sessions:
        unused.update({name: size for name, size in of.unused_tools.items() if name not in called})
        clients[of.client] += sum(of.unused_tools.values())
    names = ",".join(name for name, _ in unused.most_common(_TOOLS))
    client = _most(clients)
    if client == "claude-code":
        return "start the client without them", f"claude --disallowedTools {shlex.quote(names)}"
    return f'the gateway cuts them with [capabilities] mode = "on"; {client} offers {names}', gateway


def _most(counted: Counter[str]) -> str:
    return counted.most_common(1)[0][0] if counted else ""


def _outcomes(found: Verdict, arguments: str) -> Iterator[Change]:
    for each in found.claimed:
        yield Change(
            f"use {each.cheap} in place of {each.dear}, in the projects compared: name it under [tiers]",
            f"{amounts([each])}, by outcomes",
            _gateway(arguments),
        )


def _unknown(found: Verdict, arguments: str) -> Iterator[Change]:
    """Yield one change for every cheaper model, whichever models did the work."""
    stakes: dict[str, list[Stake]] = {}
    for each in found.stakes:
        stakes.setdefault(each.cheap, []).append(each)
    for cheap, own in stakes.items():
        dear = " and ".join(each.dear for each in own)
        yield Change(
            f"learn whether {cheap} would do the work of {dear}: ask it in the background",
            f"unknown, {amount(sum(each.dollars for each in own), sum(each.worth for each in own))} at stake",
            _gateway(f"{arguments} --shadow {shlex.quote(cheap)}"),
        )
