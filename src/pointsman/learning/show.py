"""Measurements as text a person can paste."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pointsman.learning.tiers import TierRow

__all__ = ["evaluation_lines", "ranking_table"]


def ranking_table(rows: Sequence[TierRow]) -> str:
    """One line per ranker. Random ranks at .500; CPT is the share of strong calls needed."""
    lines = ["ranker              n     APGR  95 % interval   CPT(50)  CPT(80)"]
    lines += [
        f"{row.ranker:<15} {row.n:>6}   {row.apgr:>5.3f}  {row.low:.3f} .. {row.high:.3f}"
        f"   {row.cpt50:>6.1%}   {row.cpt80:>6.1%}"
        for row in rows
    ]
    return "\n".join(lines)


def evaluation_lines(rows: Sequence[TierRow]) -> list[str]:
    """Every ranker on all prompts and on each bench: ranking, then the cost of equal quality."""
    if math.isnan(rows[0].apgr):
        return ["the strong model is not better than the weak one on these prompts: there is nothing to rank"]
    blocks = [("all prompts", list(rows))]
    blocks += [(bench, [row.benches[bench] for row in rows]) for bench in rows[0].benches]
    lines: list[str] = []
    for name, block in blocks:
        heading = [name] if len(blocks) > 1 else []
        lines += [*heading, ranking_table(block), "", *_equal_quality(block), ""]
    for row in rows:
        if row.calibration_error:
            errors = ", ".join(
                f"{model} {error.value:.3f} ({error.low:.3f} .. {error.high:.3f})"
                for model, error in row.calibration_error.items()
            )
            stated = ", ".join(f"{model} {error:.3f}" for model, error in row.stated_error.items())
            said = f"; stated, by likeness to the training data: {stated}" if stated else ""
            lines += [f"calibration error of the {row.ranker}: {errors}{said}", ""]
    return lines[:-1]


def _equal_quality(rows: Sequence[TierRow]) -> list[str]:
    kept = [(row.ranker, row.equal_quality) for row in rows if row.equal_quality]
    if not kept:
        return []
    priced = kept[0][1].cost is not None
    what = "cost, of the strong model's" if priced else "share of strong calls"
    lines = [f"to keep {kept[0][1].quality:.0%} of the strong model's quality: {what}"]
    for name, equal in kept:
        shown = equal.cost or equal.strong_share
        lines.append(f"{name:<15} {shown.value:>6.1%}  {shown.low:.1%} .. {shown.high:.1%}")
    return lines
