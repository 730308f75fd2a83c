"""Texts of hints: the event, its count, the tool, and one next step.

Tool names and errors come from outside and end up where a model reads instructions. So errors are cut, left
on one line, stripped of anything that looks like markup or acts on a display, and set in quotes. A name that
holds more than names do, such as a sentence, is not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pointsman.printable import printable
from pointsman.trajectory import DoomLoop, RepeatedError, TrajectoryAnalysis

#: Characters of an error that are quoted: enough to know it again, too few to carry another's instructions.
MAX_QUOTE: Final = 120
MAX_READ: Final = 4_096  # characters of an error that are looked at
RECENT: Final = 10  # calls described; the window of the error rate
#: Characters that providers (letters, digits, _ and -, 64 of them) and agents (. : /) allow in a tool's name.
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
#: Tools named from a cycle; a longer list is not read.
MAX_CYCLE: Final = 5
#: Characters of a tool's name in a list of several, so that five still fit.
MAX_LISTED: Final = 32

_UNQUOTABLE: Final = re.compile(r"[\x00-\x20\x7f-\xa0<>`\"{}\[\]\s]+")


def _quote(text: str, limit: int = MAX_QUOTE) -> str:
    clean = _UNQUOTABLE.sub(" ", printable(text[:MAX_READ], instead=" ")).strip()
    return clean if len(clean) <= limit else clean[: limit - 1].rstrip() + "…"


def _tool(name: str, limit: int = MAX_QUOTE) -> str:
    return f"`{_quote(name, limit) if _NAME.fullmatch(name) else '?'}`"


def _tools(names: Iterable[str], separator: str) -> str:
    return separator.join(_tool(name, MAX_LISTED) for name in names)


def loop(pattern: DoomLoop, planning_tool: str) -> str:
    """For a cycle of calls with equal results."""
    if pattern.cycle_length == 1:
        what = f"The same {_tool(pattern.cycle_actions[0])} call has returned the same result"
    else:
        names = _tools(pattern.cycle_actions[:MAX_CYCLE], " → ")
        what = f"The calls {names} have come round with the same results"
    advice = (
        "Another round brings nothing new: change the arguments, use another tool, or say what blocks you."
    )
    plan = f" {_tool(planning_tool)} can help to reconsider the plan." if planning_tool else ""
    return f"{what} {pattern.repetitions} times. {advice}{plan}"


def diagnosis(trajectory: TrajectoryAnalysis, streak: int, log_tool: str) -> str:
    """For failing calls, and for calls that get nowhere. ``streak``: failures in a row worth naming first."""
    logs = f" {_tool(log_tool)} shows the details." if log_tool else ""
    return _trouble(trajectory, streak) + logs


def _trouble(trajectory: TrajectoryAnalysis, streak: int) -> str:
    """The most telling description that fits: one error behind many calls, a streak, a stall, many errors."""
    recent = trajectory.attempt[-RECENT:]
    errors = [step for step in recent if step.is_error]
    if not errors:
        return _stalled(trajectory)
    latest = errors[-1]
    failure = f'the latest {_tool(latest.tool_name)} with: "{_quote(latest.message or "no message")}"'
    repeated = trajectory.patterns().get("repeated_error")
    if isinstance(repeated, RepeatedError) and repeated.variants > 1:
        return (
            f"{repeated.variants} different calls met the same error {repeated.count} times, {failure}. "
            "The arguments are probably not the cause: check what all of these calls take for granted."
        )
    if trajectory.consecutive_errors >= streak:
        return (
            f"The last {trajectory.consecutive_errors} tool calls failed, {failure}. Before the next call, "
            "work out what this error says about the path, name or state it depends on, and check that."
        )
    if trajectory.has_pattern("progress_stall") and 2 * len(errors) <= len(recent):
        return _stalled(trajectory)
    return (
        f"{len(errors)} of the last {len(recent)} tool calls failed, {failure}. "
        "Find the assumption they share and check it with one small call before going on."
    )


def _stalled(trajectory: TrajectoryAnalysis) -> str:
    stalled = trajectory.state.stalled
    names = list(dict.fromkeys(step.tool_name for step in trajectory.attempt[-stalled:]))[:MAX_CYCLE]
    happened = (
        f"The last {stalled} tool calls ({_tools(names, ', ')}) brought nothing new. " if stalled else ""
    )
    return f"{happened}Say what is still unknown, and choose a call that would answer it."


def consultation(trajectory: TrajectoryAnalysis, tool: str) -> str:
    """For an agent that stays stuck after a first word."""
    ask = f"use {_tool(tool)}" if tool else "ask the person you work for"
    latest = trajectory.recent_errors(1)
    error = ""
    if latest and (said := latest[0].message):  # not known where the session went on in another process
        error = f' (last error, {_tool(latest[0].tool_name)}: "{_quote(said)}")'
    return (
        f"Still stuck after {trajectory.state.attempt} tool calls in this attempt{error}. Stop retrying. "
        f"Write down what you know, what you tried and what each try showed, then {ask} for another view."
    )


def parallel(trajectory: TrajectoryAnalysis, turns: int) -> str:
    """For independent calls made one a turn."""
    names = list(dict.fromkeys(step.tool_name for step in trajectory.recent_tool_calls(turns)))[:MAX_CYCLE]
    return (
        f"The last {turns} turns made one call each ({_tools(names, ', ')}), and none needed the result of "
        "another. Calls like these can go into one turn."
    )
