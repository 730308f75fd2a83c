"""Make the shipped file of kinds: src/pointsman/tiers/kinds.json.

    .venv/bin/python scripts/kinds.py

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers). The file names each data set with its origin,
licence and hash, and holds no prompt text. Agent tasks are left out: prompts of that sort lie near no kind of
others, and their authors ask that the texts stay out of training data. A prompt that several sets hold
(527 of GSM8K) counts once, with the mean of its shares.
"""

import gzip
import hashlib
import json
import os
import re
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
    found: dict[str, tuple[str, list[float]]] = {}  # by the words in lower case
    origins = []
    for name, (source, licence, failed) in SETS.items():
        data = (DATA / f"{name}.jsonl.gz").read_bytes()
        rows = [json.loads(line) for line in gzip.decompress(data).splitlines()]
        for row in rows:
            text = persons_text(row["prompt"])
            words = " ".join(re.findall(r"\w+", text.casefold()))
            found.setdefault(words, (text, []))[1].append(failed(row))
        origins.append(Origin(name, source, licence, hashlib.sha256(data).hexdigest(), len(rows)))
    encoder = StaticEncoder()
    texts, shares = zip(*found.values(), strict=True)
    made = fit_kinds(
        texts, list(map(statistics.fmean, shares)), encoder, table=table_hash(encoder), origins=origins
    )
    file = ROOT / "src" / "pointsman" / "tiers" / "kinds.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    print(f"{file}: {len(made.kinds)} kinds of {len(texts)} prompts, {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
