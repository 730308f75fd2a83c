"""CPU time of imports and of commands that only describe themselves, before and after a change.

    python benchmarks/imports.py [--before COMMIT] [--runs 11]

Each line is the median CPU time (user and system, milliseconds) of fresh interpreters, with and without
bytecode of the package on disk. The commit to compare with is checked out into a temporary folder and
measured in turns with the working tree; ``ratio`` is after / before.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CASES = {
    "python": "pass",
    "import pointsman": "import pointsman",
    "Pointsman": "from pointsman import Pointsman",
    "Pointsman()": "from pointsman import Pointsman; Pointsman()",
    "--version": "from pointsman.cli import app; app(['--version'], standalone_mode=False)",
    "--help": "from pointsman.cli import app; app(['--help'], standalone_mode=False)",
    "serve --help": "from pointsman.cli import app; app(['serve', '--help'], standalone_mode=False)",
    "run --help": "from pointsman.cli import app; app(['run', '--help'], standalone_mode=False)",
    "eval --help": "from pointsman.cli import app; app(['eval', '--help'], standalone_mode=False)",
}


def cpu(code: str, source: Path, *, keep: bool) -> float:
    """CPU milliseconds of one fresh interpreter; without ``keep`` it writes no bytecode."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "" if keep else "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def checked_out(commit: str, folder: Path) -> Path:
    """The sources of a commit."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "src"], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def copied(folder: Path) -> Path:
    """The sources of the working tree, without bytecode."""
    return Path(shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__")))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", default="HEAD~1")
    parser.add_argument("--runs", type=int, default=11)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'':18} {'bytecode':9} {'before':>8} {'after':>8} {'ratio':>6}")
        for kept in (True, False):
            place = folder / ("kept" if kept else "none")
            trees = {"before": checked_out(asked.before, place / "before"), "after": copied(place / "after")}
            for case, code in CASES.items():
                for source in trees.values():
                    cpu(code, source, keep=kept)  # writes the bytecode, and compiles patterns once
                runs = [
                    {tree: cpu(code, source, keep=kept) for tree, source in trees.items()}
                    for _ in range(asked.runs)
                ]
                median = {tree: statistics.median(run[tree] for run in runs) for tree in trees}
                ratio = median["after"] / median["before"]
                shown = f"{median['before']:8.1f} {median['after']:8.1f} {ratio:6.2f}"
                print(f"{case:18} {'kept' if kept else 'none':9} {shown}", flush=True)


if __name__ == "__main__":
    main()
