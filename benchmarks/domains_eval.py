"""The four memory strategies on the two public dialogue sets, with the domain files beside this script.

    .venv/bin/python benchmarks/domains_eval.py [FOLDER OF THE DATA]

The folder is that of the shared evaluation data; by default $POINTSMAN_SHARED/data, else ../shared/data.
"""

import os
import sys
from pathlib import Path

from pointsman.cli.patterns import evaluate_domains

ROOT = Path(__file__).resolve().parents[1]
SETS = {"sgd_multidomain": "sgd.toml", "bfcl_multi_turn": "bfcl.toml"}


def main() -> None:
    shared = Path(os.environ.get("POINTSMAN_SHARED", ROOT.parent / "shared"))
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else shared / "data"
    for name, file in SETS.items():
        print(f"\n{name}")
        evaluate_domains(data / "domains" / f"{name}.jsonl.gz", ROOT / "benchmarks" / "domains" / file)


if __name__ == "__main__":
    main()
