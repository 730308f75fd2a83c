"""Attacks on a fresh gateway, on loopback, and what each may cost: ``python scripts/attack.py [NAME ...]``.

Runs those attacks whose name contains one of the words given, by default all; ends with status 1 when a bound
is broken. Each attack is a function in ``scripts/attacks``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from attacks import ATTACKS
from attacks.base import Attack


def attacked(attack: Attack, *, timed: bool) -> bool:
    """Make an attack, print its rows, and return whether every bound was kept; of times only if ``timed``."""
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        for bound in attack.run(Path(folder)):
            limit = f"{bound.least:g} to {bound.most:g}" if bound.least else f"{bound.most:g}"
            word = "yes" if bound.is_kept else "NO"
            print(f"| {attack.name} | {bound.what} | {bound.seen:.2f} | {limit} | {word} |", flush=True)
            kept &= bound.is_kept or (bound.is_time and not timed)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="words in the names of the attacks to make")
    parser.add_argument(
        "--quick", action="store_true", help="those that take seconds; a time out of bounds is no failure"
    )
    asked = parser.parse_args()
    wanted = asked.names
    print("| attack | figure | seen | bound | kept |\n|---|---|---|---|---|")
    chosen = [a for a in ATTACKS if not wanted or any(word in a.name for word in wanted)]
    chosen = [a for a in chosen if a.is_quick or not asked.quick]
    kept = [
        attacked(attack, timed=not asked.quick) for attack in chosen
    ]  # all of them, also behind one that broke a bound
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
