"""Run the commands whose output the page on measuring and its decisions quote, and write what they print.

    .venv/bin/python scripts/figures.py [NAME ...]

Needs ../shared/data (or $POINTSMAN_SHARED/data) and the extras ``static`` and ``fit``; all take some ten
minutes. ``tests/docs/test_figures.py`` compares the pages with ``docs/explanation/figures.json``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("POINTSMAN_SHARED", ROOT.parent / "shared")) / "data"
FILE = ROOT / "docs" / "explanation" / "figures.json"

#: Name, and command; what ends in ``.gz`` is a file below the data.
COMMANDS = {
    "escalation": "benchmarks/escalation.py trajectories/step_features.jsonl.gz "
    "trajectories/tau_bench_airline.jsonl.gz",
    "projects": "benchmarks/projects.py tiers/agent_tasks.jsonl.gz --orders 60",
    "kinds": "benchmarks/left_out.py",
    "claims": "benchmarks/claims.py --draws 60",
    "robustness": "benchmarks/robustness.py --data tiers/tier_labels.jsonl.gz",
    "gadgets": "benchmarks/gadgets.py",
}


def printed(command: str) -> list[str]:
    """The lines that a command prints."""
    words = [str(DATA / word) if word.endswith(".gz") else word for word in command.split()]
    # Some of the commands draw from sets, whose order is that of the hashes.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    run = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def main() -> None:
    """Run the commands named, or all."""
    known: dict[str, list[str]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in sys.argv[1:] or COMMANDS:
        known[name] = printed(COMMANDS[name])
        FILE.write_text(json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
        print(name)


if __name__ == "__main__":
    main()
