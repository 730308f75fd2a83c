"""Make the shipped file of kinds: src/pointsman/tiers/kinds.json.

    .venv/bin/python scripts/kinds.py

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers). The file names each data set with its origin,
licence and hash, and holds no prompt text. Agent tasks are left out: prompts of that sort lie near no kind of
others, and their authors ask that the texts stay out of training data.
"""

import gzip
import hashlib
import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from pointsman.encoders import StaticEncoder
from pointsman.encoders.learned_routers import table_hash
from pointsman.learning.kinds import fit_kinds
from pointsman.learning.rankers import persons_text
from pointsman.tiers.kinds import Origin

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("POINTSMAN_SHARED", ROOT.parent / "shared")) / "data" / "tiers"

#: Data set -> origin, licence, and the share of models that failed at a row.
SETS: dict[str, tuple[str, str, Callable[[dict[str, Any]], float]]] = {
    "strong_weak": ("lm-sys/RouteLLM", "Apache-2.0", lambda row: 1 - (row["weak"] + row["strong"]) / 2),
    "nine_models": ("ulab-uiuc/LLMRouter", "MIT", lambda row: 1 - statistics.fmean(row["scores"].values())),
    "difficulty": ("WildEval/ZeroEval", "Apache-2.0", lambda row: float(row["difficulty"])),
}


def main() -> None:
    texts: list[str] = []
    difficulties: list[float] = []
    origins = []
    for name, (source, licence, failed) in SETS.items():
        data = (DATA / f"{name}.jsonl.gz").read_bytes()
        rows = [json.loads(line) for line in gzip.decompress(data).splitlines()]
        texts += [persons_text(row["prompt"]) for row in rows]
        difficulties += [failed(row) for row in rows]
        origins.append(Origin(name, source, licence, hashlib.sha256(data).hexdigest(), len(rows)))
    encoder = StaticEncoder()
    made = fit_kinds(texts, difficulties, encoder, table=table_hash(encoder), origins=origins)
    file = ROOT / "src" / "pointsman" / "tiers" / "kinds.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    print(f"{file}: {len(made.kinds)} kinds of {len(texts)} prompts, {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
