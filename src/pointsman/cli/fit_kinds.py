"""``pointsman fit kinds``: kinds of prompts with how hard each is, from outcomes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pointsman.cli.options import JsonOption
from pointsman.cli.output import echo, needs_extra, print_json, save, writable
from pointsman.learning.datasets import read_difficulties

__all__ = ["kinds"]


def kinds(
    *,
    data: Annotated[
        Path,
        typer.Option(
            help="JSON lines: prompt, and difficulty (0 to 1), scores by model, or weak and strong."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Output file.")],
    source: Annotated[str, typer.Option(help="Origin of the data, named in the file.")] = "",
    licence: Annotated[str, typer.Option(help="Licence of the data, named in the file.")] = "",
    count: Annotated[int, typer.Option(min=2, max=256, help="Number of kinds.")] = 64,
    weight: Annotated[
        float, typer.Option(min=0, help="Weight of a difference in difficulty beside ln(characters).")
    ] = 2.0,
    seed: Annotated[int, typer.Option(help="Random seed of the clusters.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Find kinds of prompts and how often models fail at each, from outcomes.

    kinds = "FILE" under [tiers] uses the file. It holds no prompt text. Needs the extra static.
    """
    with needs_extra("fit", "pointsman fit kinds"):
        from pointsman.encoders import StaticEncoder
        from pointsman.encoders.kinds import table_hash
        from pointsman.learning.kinds import fit_kinds
        from pointsman.learning.rankers import persons_text
        from pointsman.tiers.kinds import Origin

    writable(out)
    rows = read_difficulties(data)
    encoder = StaticEncoder()
    found = fit_kinds(
        [persons_text(prompt) for prompt, _ in rows],
        [failed for _, failed in rows],
        encoder,
        table=table_hash(encoder),
        origins=[
            Origin(data.name, source, licence, hashlib.sha256(data.read_bytes()).hexdigest(), len(rows))
        ],
        count=count,
        weight=weight,
        seed=seed,
    )
    save(out, msgspec.json.encode(found))
    if as_json:
        print_json({"file": str(out), "mean": found.mean, "kinds": found.kinds})
        return
    for kind in sorted(found.kinds, key=lambda each: -each.difficulty):
        echo(f"{kind.difficulty:4.0%} of {kind.prompts:>6,}  {kind.sentence}")
    echo(f"{len(found.kinds)} kinds of {len(rows):,} prompts, of which models fail {found.mean:.0%}: {out}")
