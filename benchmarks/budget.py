"""What a request costs, counted: opcodes, calls, writes and imports, compared with a committed table.

    .venv/bin/python benchmarks/budget.py [--write] [--only PART] [--files | --functions]

A real gateway serves requests over loopback (``counting/``). Counted are the opcodes that its event loop
executes, apart from those of all other threads and child processes; Python and C calls; writing system calls,
rows and bytes of the ledger; and the modules that each command imports. No clock is read, so other work on
the machine changes nothing. A figure that is 1 % above its line in ``budget.json`` fails (10 % for
writes: pages of a database do not fill alike). ``--write`` renews the table: commit it with the change that
spends more, and say in that commit what for.

The table holds for one minor version of Python, whose compiler makes the opcodes. Another one counts nothing.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from counting.measured import BARE, features, imports, initial, loads

TABLE = Path(__file__).parent / "budget.json"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MOST = 0.01  # by which a figure may rise
MOST_WRITES = 0.1
MOST_IN_BACKGROUND = 1.0  # what these features do runs beside the request, in pieces that vary by a third
IN_BACKGROUND = ("shadow model", "telemetry")
SHOWN = 12  # files of a load that rose
#: Opcodes and calls by which a figure may differ though nothing has changed, however small it is.
SLACK = 3.0
SLACK_OF_CALLS = 0.5
#: Opcodes of a feature, whose figure is the difference between the counts of two gateways: .1 % of each.
SLACK_OF_FEATURE = 16.0

Table = dict[str, Any]


def configurations() -> dict[str, Callable[[], str]]:
    return {"bare": lambda: BARE, "config init": initial}


async def measured(parts: set[str]) -> Table:
    """Count what is asked for: configurations by name, "features", "imports"."""
    table: Table = {"python": PYTHON, "loads": {}, "files": {}}
    for name, config in configurations().items():
        if name in parts:
            table["loads"][name], table["files"][name] = await loads(config())
    if "features" in parts:
        table["features"] = await features()
    if "imports" in parts:
        table["imports"] = await imports()
    return table


def rounded(value: Any) -> Any:
    """Figures with one decimal, and tables in order."""
    if isinstance(value, dict):
        return {key: rounded(value[key]) for key in value}
    return round(value, 1) if isinstance(value, float) else value


def figures(table: Table) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield all figures but those by file, with what they are of."""
    for part in ("loads", "features", "imports"):
        yield from _figures((), table.get(part, {}))


def _figures(path: tuple[str, ...], found: Any) -> Iterator[tuple[tuple[str, ...], float]]:
    if not isinstance(found, dict):
        yield path, float(found)
        return
    for key, below in found.items():
        yield from _figures((*path, key), below)


def is_above(path: tuple[str, ...], before: float, now: float) -> bool:
    """Whether a figure has risen by more than it may."""
    what = path[-1]
    if what in ("writes", "bytes written", "bytes of the file"):
        return now >= before * (1 + MOST_WRITES) + 1
    most = MOST_IN_BACKGROUND if path[0] in IN_BACKGROUND else MOST
    slack = 0.0
    if what.startswith("opcodes"):
        slack = SLACK
    elif what.startswith("on"):
        slack = SLACK_OF_FEATURE
    elif "calls" in what:
        slack = SLACK_OF_CALLS
    return now > before and now - before >= max(before * most, slack)


def risen(before: Table, now: Table, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the files of a load that cost more than before."""
    config, load, what = (*path, "", "")[:3]
    if not what.startswith("opcodes") or load not in before.get("loads", {}).get(config, {}):
        return
    files = f"{load}, {what.rpartition(' ')[2]}"
    old = before["files"].get(config, {}).get(files, {})
    new = now["files"].get(config, {}).get(files, {})
    changes = sorted(((new.get(file, 0) - old.get(file, 0), file) for file in {*old, *new}), reverse=True)
    for change, file in changes[:SHOWN]:
        if change >= 1:
            yield f"    {change:+8.1f}  {file}"


def compare(before: Table, now: Table) -> bool:
    """Print all figures beside those of the table; return whether one is above it."""
    known, above = dict(figures(before)), []
    for path, value in figures(now):
        old = known.get(path)
        mark = "" if old is None or old == value or not old else f"{value / old - 1:+8.2%}"
        shown = "new" if old is None else f"{old:12,.1f}"
        print(f"{', '.join(path):<62}{shown:>12}{value:>12,.1f} {mark}")
        if old is None or is_above(path, old, value):
            above.append(path)
    for path in above:
        print(f"{'not in' if path not in known else 'above'} the table: {', '.join(path)}")
        for line in risen(before, now, path):
            print(line)
    return bool(above)


def merged(before: Table, now: Table) -> Table:
    """The table with what was counted anew."""
    both = {**before, **now}
    for part in ("loads", "files"):
        both[part] = {**before.get(part, {}), **now[part]}
    return both


def main() -> None:
    parts = [*configurations(), "features", "imports"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="renew the table")
    parser.add_argument("--only", choices=parts, action="append", help="count this part alone")
    parser.add_argument("--files", action="store_true", help="print the opcodes of each file")
    parser.add_argument("--functions", action="store_true", help="print the opcodes of each function")
    options = parser.parse_args()
    if options.functions:
        os.environ["POINTSMAN_COUNT_FUNCTIONS"] = "1"
    before = json.loads(TABLE.read_text()) if TABLE.exists() else {"python": PYTHON, "files": {}}
    if before["python"] != PYTHON:
        print(f"the budget holds for Python {before['python']}, and this is {PYTHON}: nothing was counted")
        return
    now = rounded(asyncio.run(measured(set(options.only or parts))))
    is_over = compare(before, now)
    if options.files or options.functions:
        print(json.dumps(now["files"], indent=1))
    if options.write and not options.functions:
        TABLE.write_text(json.dumps(merged(before, now), indent=1, sort_keys=True) + "\n")
    elif is_over:
        raise SystemExit(
            "\na figure is above benchmarks/budget.json: make it cheaper, or renew the table with --write"
        )


if __name__ == "__main__":
    main()
