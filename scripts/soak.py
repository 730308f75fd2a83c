"""Mixed load on one gateway for a while, and whether anything was lost or grows.

.venv/bin/python scripts/soak.py [--minutes 30] [--seed 1]

Upstreams that break a quarter of their answers with a healthy one behind them, callers who read slowly, leave,
or never finish a request, a reload every 20 seconds (every fifth wrong), and a full disk for a tenth of the
time. Ends with status 1 when a request was lost that should have been served, or memory or descriptors grew.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from soaking.callers import Callers  # noqa: E402 - needs the path above
from soaking.gateway import Gateway, Sample  # noqa: E402
from soaking.upstream import Upstream  # noqa: E402

_CALLERS: Final = 12
_EVERY: Final = 0.5  # seconds between two requests of a caller, on average
_SAMPLES_EVERY: Final = 5.0
_RELOAD_EVERY: Final = 20.0
#: MB, and descriptors, by which the last fifth may lie above the second: the allocator's and the caches' own ups
#: and downs. A leak of one request's 20 kB would be 800 MB after 40,000 requests.
_MEMORY_MAY_GROW: Final = 20.0
_FILES_MAY_GROW: Final = 16


async def _reload(gateway: Gateway, until: float) -> int:
    count = 0
    while time.monotonic() + _RELOAD_EVERY < until:
        await asyncio.sleep(_RELOAD_EVERY)
        count += 1
        gateway.configure(retries=1 + count % 2, wrong=count % 5 == 0)
        gateway.hang_up()
    gateway.configure()
    return count


async def _fill_disk(gateway: Gateway, callers: Callers, seconds: float) -> str:
    """Fill the disk in the middle for a tenth of the time; return what readiness said then."""
    if not gateway.has_disk:
        return "left out: unshare is not there"
    await asyncio.sleep(seconds * 0.4)
    gateway.fill_disk()
    await asyncio.sleep(seconds * 0.1)
    said = await callers.get("/health/ready")
    gateway.free_disk()
    return said.partition("\r\n\r\n")[2]


async def _sample(gateway: Gateway, until: float) -> list[Sample]:
    began, samples = time.monotonic(), []
    while time.monotonic() < until:
        samples.append(gateway.sample(time.monotonic() - began))
        await asyncio.sleep(_SAMPLES_EVERY)
    return samples


def _fifths(values: Sequence[float]) -> list[float]:
    """The median of each fifth of the time."""
    size = max(len(values) // 5, 1)
    return [statistics.median(values[start : start + size]) for start in range(0, size * 5, size)]


async def soak(folder: Path, minutes: float, seed: int) -> bool:
    """Run the load, print what came of it, and return whether all went well."""
    main, spare = Upstream(breaks=True, seed=seed), Upstream(breaks=False, seed=seed)
    gateway = Gateway(folder, await main.start(), await spare.start())
    await gateway.start()
    seconds = minutes * 60
    callers = Callers(gateway.port, seed)
    await callers.ask(0.01, time.monotonic() + 2)  # opens what is opened at the first request
    first, until = gateway.sample(0), time.monotonic() + seconds
    loads = [callers.ask(_EVERY, until) for _ in range(_CALLERS)]
    loads += [callers.read_slowly(until) for _ in range(4)]
    loads += [callers.leave(0.5, until) for _ in range(2)]
    loads += [callers.never_finish(until) for _ in range(6)]
    samples, reloads, full, *_ = await asyncio.gather(
        _sample(gateway, until), _reload(gateway, until), _fill_disk(gateway, callers, seconds), *loads
    )
    await asyncio.sleep(75)  # idle connections to upstreams are closed after 50 s
    rest, metrics = gateway.sample(seconds), await callers.get("/metrics")
    ready = (await callers.get("/health/ready")).partition("\r\n\r\n")[2]
    status = await gateway.stop()
    told = callers.told - main.cut
    memory, files = _fifths([one.memory for one in samples]), _fifths([one.files for one in samples])
    waited = sorted(callers.milliseconds)
    print(
        f"{minutes:g} minutes, seed {seed}, {_CALLERS} callers; {main.asked + spare.asked} upstream requests"
    )
    print("served", callers.results.total(), dict(callers.results), "streams cut and told", len(callers.told))
    print("broken by the upstream", dict(main.broken))
    print(
        f"whole answers, ms: median {waited[len(waited) // 2]:.1f}, p90 {waited[len(waited) * 9 // 10]:.1f}"
    )
    print(f"lost {len(callers.lost)}; error events without a cut {len(told)}; reloads {reloads}")
    for line in callers.lost[:20]:
        print("  ", line)
    print(
        "memory by fifth of the time, MB:", *(f"{one:.0f}" for one in memory), f"; most {_most(samples):.0f}"
    )
    print(
        "descriptors by fifth:",
        *(f"{one:.0f}" for one in files),
        f"; first {first.files}, at rest {rest.files}",
    )
    print(f"threads at rest {rest.threads}; log {gateway.logged} bytes; status at the end {status}")
    print("full disk:", full, "| afterwards:", ready)
    for name in ("requests_in_progress", "body_bytes_held", "ledger_lost", "session_failures"):
        print(" ", *re.findall(rf"^pointsman_{name} .*", metrics, re.MULTILINE))
    grew = memory[4] - memory[1] > _MEMORY_MAY_GROW or files[4] - files[1] > _FILES_MAY_GROW
    held = rest.files - first.files > _FILES_MAY_GROW or "pointsman_requests_in_progress 0" not in metrics
    if status or grew or held:
        print("\n".join(gateway.lines[-20:]))
    return not (callers.lost or told or grew or held or status)


def _most(samples: Sequence[Sample]) -> float:
    return max(one.memory for one in samples)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 0 if asyncio.run(soak(Path(folder), asked.minutes, asked.seed)) else 1


if __name__ == "__main__":
    sys.exit(main())
