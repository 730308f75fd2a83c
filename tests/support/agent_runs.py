"""A notation for runs, so that a test can be a table.

``E`` a failing call and ``.`` a successful one, each with arguments of its own; ``R`` a rate limit; ``D`` a
call its user declined; ``U`` a person speaks; ``tool(arguments)result`` a call that returns and
``tool(arguments)!error`` one that fails; ``|`` puts two calls into one parallel batch: ``read(a)1|read(b)2``.
"""

import re
from collections.abc import Iterator

from pointsman.trajectory import (
    Event,
    ToolInvoked,
    ToolResult,
    TrajectoryAnalysis,
    TrajectoryAnalysisConfig,
    TrajectoryBuilder,
    UserSpoke,
)

CALL = re.compile(r"(\w+)\((.*?)\)(!?)(.*)")


def invoked(
    token: str, number: int, turn: int | None = None, position: int = 0, batch: int = 1
) -> ToolInvoked:
    short = {
        "E": (
            "work",
            f"e{number}",
            ToolResult.error(f"broken {'abcdefghij'[number % 10]}{number % 100 // 10}"),
        ),
        ".": ("work", f"s{number}", ToolResult.ok(f"done {number}")),
        "R": ("work", "r", ToolResult.error("429 Too Many Requests: rate limit reached")),
        "D": ("work", "d", ToolResult.error("The user doesn't want to proceed with this tool use.")),
    }
    if token in short:
        tool, arguments, result = short[token]
    else:
        found = CALL.fullmatch(token)
        assert found, token
        tool, arguments, failed, text = found.groups()
        result = ToolResult.error(text) if failed else ToolResult.ok(text)
    return ToolInvoked(tool, {"x": arguments}, result, turn=turn, position=position, batch=batch)


def events(notation: str) -> Iterator[Event]:
    turn = 0
    for number, token in enumerate(notation.split()):
        if token == "U":
            yield UserSpoke()
            continue
        calls = token.split("|") if "(" in token else [token]
        turn += 1
        for position, call in enumerate(calls):
            yield invoked(call, number, turn, position, len(calls))


def run(notation: str, config: TrajectoryAnalysisConfig | None = None) -> TrajectoryAnalysis:
    builder = TrajectoryBuilder.from_config(config) if config else TrajectoryBuilder()
    for event in events(notation):
        builder.on_event(event)
    return builder.build()
