"""Instructions of decisions, of a request and of the ledger's thread, counted by callgrind; with ceilings.

    .venv/bin/python benchmarks/instructions.py [--write]

For nights: it takes minutes, and needs valgrind. What opcodes do not see (``budget.py``), one long call of C,
is here. Only user space is counted, so other work on the machine changes nothing but how often timers run. A
figure that is 3 % (of a gateway: 5 %) above its line in ``instructions.json`` fails; ``--write`` renews it.
"""

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counting.gateway import environment, serving
from counting.loads import agent, framed, short
from counting.measured import BARE

TABLE = Path(__file__).parent / "instructions.json"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MOST = 0.03  # by which a figure may rise
MOST_OF_GATEWAY = 0.05  # timers run while it serves, and the ledger's batches differ
DECISIONS = {20: 200, 200: 200, 2_000: 100, 20_000: 20, 400_000: 3}  # texts of each size
WARM_UP = 10
WRITTEN = 5.0  # seconds after which the ledger has written all of a load
REQUESTS: dict[str, tuple[Callable[[int], bytes], int]] = {
    "short": (short, 40),
    "agent, first request": (agent, 10),
}
_TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)

Figures = dict[str, float]


def callgrind(folder: Path, *options: str) -> list[str]:
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out", *options]


def total(path: Path) -> int:
    """Instructions since the dump before this one."""
    return int(_TOTAL.findall(path.read_text())[-1])


def decisions() -> Figures:
    """Instructions of a decision of each size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = str(Path(__file__).parent / "decisions_counted.py")
        command = [sys.executable, script, *(f"{size}:{count}" for size, count in DECISIONS.items())]
        env = environment(folder, POINTSMAN_COUNT="")
        under = callgrind(folder, "--dump-before=sched_yield")
        subprocess.run([*under, *command], env=env, check=True, capture_output=True)
        found = {}
        for number, (size, count) in enumerate(DECISIONS.items()):
            dumped = folder / f"callgrind.out.{2 * number + 2}"
            found[f"decision of {size:,} characters"] = total(dumped) / count
        return found


def dumped(folder: Path, pid: int) -> Counter[str]:
    """Instructions of a gateway since the dump before, on the event loop and elsewhere."""
    before = set(folder.glob("callgrind.out.*"))
    subprocess.run(["callgrind_control", "--dump", str(pid)], check=True, capture_output=True)
    found: Counter[str] = Counter()
    for path in set(folder.glob("callgrind.out.*")) - before:
        found["loop" if path.name.endswith("-01") else "other threads"] += total(path)
    return found


async def requests() -> Figures:
    """Instructions of a request of each load, on the event loop and elsewhere."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with serving(folder, BARE, callgrind(folder, "--separate-threads=yes")) as gateway:
            for load, (make, count) in REQUESTS.items():
                for number in range(WARM_UP):
                    await gateway.caller.ask(framed(gateway.port, make(1000 + number)))
                await asyncio.sleep(WRITTEN)
                await asyncio.to_thread(dumped, folder, gateway.pid)
                for number in range(count):
                    await gateway.caller.ask(framed(gateway.port, make(number)))
                await asyncio.sleep(WRITTEN)
                counted = await asyncio.to_thread(dumped, folder, gateway.pid)
                for where, instructions in sorted(counted.items()):
                    found[f"{load}, {where}"] = instructions / count
    return found


def most(name: str) -> float:
    return MOST if name.startswith("decision") else MOST_OF_GATEWAY


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="renew the table")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed: apt-get install valgrind")
    table: dict[str, Any] = json.loads(TABLE.read_text()) if TABLE.exists() else {"python": PYTHON}
    if table["python"] != PYTHON:
        print(f"the table holds for Python {table['python']}, and this is {PYTHON}: nothing was counted")
        return
    found = {name: round(number) for name, number in (decisions() | asyncio.run(requests())).items()}
    known = table.get("instructions", {})
    above = [name for name, number in found.items() if number > known.get(name, 0) * (1 + most(name))]
    for name, number in found.items():
        print(f"{name:<40}{known.get(name, 0):>14,}{number:>14,}")
    if options.write:
        TABLE.write_text(json.dumps({"python": PYTHON, "instructions": found}, indent=1) + "\n")
    elif above:
        raise SystemExit(f"above {TABLE.name}: {'; '.join(above)}")


if __name__ == "__main__":
    main()
