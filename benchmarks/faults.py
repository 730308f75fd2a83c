"""Requests that succeed when an upstream breaks three answers in ten and a healthy model stands behind it.

.venv/bin/python benchmarks/faults.py [REQUESTS [SEED]]

Six ways of breaking, all formats, whole and streamed in turn. ``direct`` is what the same callers would have
got from the faulty upstream alone: the share of its answers that were not broken.
"""

import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1] / "tests")  # instead of this folder, whose gateway.py is another

from support.faulty_upstream import run  # noqa: E402 - found only now

RETRIES = 1  # of the same model, then the healthy one


def main() -> int:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began = time.monotonic()
    result = run(requests, seed=seed, retries=RETRIES)
    took = time.monotonic() - began
    broken = sum(result.broken.values())
    print(f"{requests} requests, seed {seed}, {took:.0f} s")
    print(f"direct    {1 - broken / result.answers:8.2%} of {result.answers} answers whole")
    print(f"gateway   {result.share:8.2%} of {result.requests} requests answered whole")
    print("faults    " + ", ".join(f"{name} {count}" for name, count in sorted(result.broken.items())))
    print("attempts  " + ", ".join(f"{tries}: {count}" for tries, count in sorted(result.attempts.items())))
    print("failed    " + ", ".join(f"{kind} {count}" for kind, count in sorted(result.errors.items())))
    for bad in result.bad[:10]:
        print("bad       " + bad)
    return int(result.share < 0.999)


if __name__ == "__main__":
    sys.exit(main())
