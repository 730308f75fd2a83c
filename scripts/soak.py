"""Mixed load on one gateway for a while, and whether anything was lost or grows.

.venv/bin/python scripts/soak.py [--minutes 30] [--seed 1]

An upstream that breaks a quarter of its answers with a healthy one behind it, callers who read slowly, leave
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
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from soaking.callers import Callers
from soaking.gateway import Gateway, Sample
from soaking.upstream import Upstream

_CALLERS: Final = 12
_EVERY: Final = 0.5  # seconds between two requests of a caller, on average
_SAMPLES_EVERY: Final = 2.0
_RELOAD_EVERY: Final = 20.0
#: Seconds after which nothing is left of a request: idle connections to upstreams are closed after 50.
_REST: Final = 75.0
#: MB, and descriptors, by which the last fifth may lie above the second: the ups and downs of the allocator.
#: A leak of 20 kB in each request would be 800 MB after 40,000 requests.
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
    return said


async def _sample(gateway: Gateway, until: float) -> list[Sample]:
    began, samples = time.monotonic(), []
    while time.monotonic() < until:
        samples.append(gateway.sample(time.monotonic() - began))
        await asyncio.sleep(_SAMPLES_EVERY)
    return samples


def _fifths(values: Sequence[float]) -> list[float]:
    """The median of each fifth of the time."""
    size = max(len(values) // 5, 1)
    return [
        statistics.median(values[start : start + size])
        for start in range(0, min(size * 5, len(values)), size)
    ]


class Result(NamedTuple):
    """What came of a run."""

    callers: Callers
    main: Upstream
    samples: Sequence[Sample]
    first: Sample  # when all that is opened once is open, and nobody asks
    rest: Sample  # when everybody has gone
    reloads: int
    full: str  # what readiness said while the disk was full
    ready: str  # and afterwards
    metrics: str
    status: int  # of the process

    @property
    def memory(self) -> list[float]:
        """MB, by fifths of the time."""
        return _fifths([one.memory for one in self.samples])

    @property
    def files(self) -> list[float]:
        """Descriptors, by fifths of the time."""
        return _fifths([one.files for one in self.samples])

    def faults(self) -> list[str]:
        """What went wrong, a line each."""
        memory, files, told = self.memory, self.files, self.callers.told - self.main.cut
        found = [f"lost: {line}" for line in self.callers.lost]
        found += [f"an error event, and the upstream had not cut the stream: {number}" for number in told]
        found += [f"status {self.status} at the end"] if self.status else []
        found += ["memory grew"] if memory[-1] - memory[1] > _MEMORY_MAY_GROW else []
        found += ["descriptors grew"] if files[-1] - files[1] > _FILES_MAY_GROW else []
        found += ["descriptors are held"] if self.rest.files - self.first.files > _FILES_MAY_GROW else []
        found += [] if "pointsman_requests_in_progress 0" in self.metrics else ["requests are held"]
        return found


async def soak(folder: Path, minutes: float, seed: int) -> Result:
    """Run the load on a gateway of its own."""
    main, spare = Upstream(breaks=True, seed=seed), Upstream(breaks=False, seed=seed)
    gateway = Gateway(folder, await main.start(), await spare.start())
    with gateway.running():
        return await _soaked(gateway, main, minutes * 60, seed)


async def _soaked(gateway: Gateway, main: Upstream, seconds: float, seed: int) -> Result:
    callers = Callers(gateway.port, seed)
    await callers.ask(0.01, time.monotonic() + 2)  # opens what is opened at the first request
    first, until = gateway.sample(0), time.monotonic() + seconds
    loads = [callers.ask(_EVERY, until) for _ in range(_CALLERS)]
    loads += [callers.read_slowly(until) for _ in range(4)]
    loads += [callers.leave(0.5, until) for _ in range(2)]
    loads += [callers.never_finish(until) for _ in range(6)]
    beside = asyncio.gather(*loads)
    watched = _sample(gateway, until), _reload(gateway, until), _fill_disk(gateway, callers, seconds)
    samples, reloads, full = await asyncio.gather(*watched)
    await beside
    await asyncio.sleep(_REST)
    rest, metrics = gateway.sample(seconds), await callers.get("/metrics")
    ready = await callers.get("/health/ready")
    return Result(callers, main, samples, first, rest, reloads, full, ready, metrics, gateway.stop())


def show(result: Result) -> None:
    """Print the figures."""
    callers, rest = result.callers, result.rest
    waited = sorted(callers.milliseconds)
    print("served:", dict(callers.results), "and streams that the upstream cut:", len(callers.told))
    print("broken by the upstream:", dict(result.main.broken))
    print(
        f"whole answers: median {waited[len(waited) // 2]:.1f} ms, p90 {waited[len(waited) * 9 // 10]:.1f} ms"
    )
    print(f"lost: {len(callers.lost)}; reloads: {result.reloads}")
    most = max(one.memory for one in result.samples)
    print("MB by fifths of the time:", *(f"{one:.0f}" for one in result.memory), f"most {most:.0f}")
    print("descriptors by fifths:", *(f"{one:.0f}" for one in result.files))
    print(f"descriptors at first {result.first.files}, at rest {rest.files}; threads at rest {rest.threads}")
    print("full disk:", result.full, "afterwards:", result.ready)
    for name in ("requests_in_progress", "body_bytes_held", "ledger_lost_total", "session_failures_total"):
        print(*re.findall(rf"^pointsman_{name} .*", result.metrics, re.MULTILINE))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(soak(Path(folder), asked.minutes, asked.seed))
    show(result)
    faults = result.faults()
    print(*faults[:50], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
