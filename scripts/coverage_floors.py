"""Fails when a package is covered less than its floor. Run after ``make test ARGS=--cov``.

.venv/bin/python scripts/coverage_floors.py          # prints the packages below their floor, and exits with 1
.venv/bin/python scripts/coverage_floors.py --all    # prints every package

The figure is coverage.py's own: percent of lines and branches together. What decides must reach 95 %; every
other package what it reached when its floor was set, less a few points: a branch that only a busy machine
takes must not fail a build. A package without a floor fails.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from coverage import Coverage

SOURCE = Path(__file__).resolve().parents[1] / "src" / "pointsman"
DECIDES = 95
FLOORS = {
    "vocabulary": DECIDES,
    "prices": DECIDES,
    "errors": DECIDES,
    "decoding": DECIDES,
    "jsonl": DECIDES,
    "toml_source": DECIDES,
    "wire": DECIDES,
    "text": DECIDES,
    "evidence": DECIDES,
    "trajectory": DECIDES,
    "tiers": DECIDES,
    "domains": DECIDES,
    "guidance": DECIDES,
    "capabilities": DECIDES,
    "model_choice": DECIDES,
    "decision": DECIDES,
    "orchestrator": DECIDES,
    "__init__": 90,
    "__main__": 0,  # runs in processes of their own only, which nothing measures
    "access": 95,
    "agreement": DECIDES,
    "api": 93,
    "audit": 90,
    "batch": 80,
    "catalogue": 96,
    "cli": 92,
    "compat": 92,
    "config": 96,
    "console": 93,
    "diagnostics": 96,
    "encoders": 93,
    "drivers": 94,
    "ext_proc": 92,
    "factory": 80,
    "gateway": 92,
    "integrations": 95,
    "learning": 96,
    "model_calls": 90,
    "offload": 95,
    "plugins": 93,
    "printable": 95,
    "remembering": 95,
    "reports": 96,
    "runtime": 95,
    "shadow_policy": 95,
    "stores": 95,
    "telemetry": 93,
    "testing": 95,
    "upstreams": 96,
}


def package_of(file: str) -> str:
    """The name below ``pointsman``: a folder, or a module of the top level."""
    return Path(file).resolve().relative_to(SOURCE).parts[0].removesuffix(".py")


def measured() -> dict[str, float]:
    """Percent covered of every package, from the data file of the last run."""
    coverage = Coverage()
    coverage.load()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        coverage.json_report(outfile=str(report))
        files = json.loads(report.read_bytes())["files"]
    covered, there = Counter[str](), Counter[str]()
    for file, found in files.items():
        summary, package = found["summary"], package_of(file)
        covered[package] += summary["covered_lines"] + summary["covered_branches"]
        there[package] += summary["num_statements"] + summary["num_branches"]
    return {package: 100 * covered[package] / there[package] for package in sorted(there) if there[package]}


def main() -> None:
    found = measured()
    below = {package for package, percent in found.items() if percent < FLOORS.get(package, 101)}
    for package, percent in found.items():
        if package in below or "--all" in sys.argv:
            floor = f"{FLOORS[package]} %" if package in FLOORS else "none is set"
            print(f"{'below' if package in below else 'ok':6} {package:16} {percent:6.2f} %, floor {floor}")
    gone = sorted(FLOORS.keys() - found.keys())
    if gone:
        print("no such package, or nothing of it was measured:", ", ".join(gone))
    sys.exit(1 if below or gone else 0)


if __name__ == "__main__":
    main()
