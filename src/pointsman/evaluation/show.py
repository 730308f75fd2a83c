"""Measurements as text a person can paste."""

from __future__ import annotations

from collections.abc import Sequence

from pointsman.evaluation.tiers import Row

__all__ = ["ranking_table"]


def ranking_table(rows: Sequence[Row]) -> str:
    """One line per ranker. Random ranks at .500; CPT is the share of strong calls needed."""
    lines = ["ranker         n     APGR  95 % interval   CPT(50)  CPT(80)"]
    lines += [
        f"{row.ranker:<10} {row.n:>6}   {row.apgr:>5.3f}  {row.low:.3f} .. {row.high:.3f}"
        f"   {row.cpt50:>6.1%}   {row.cpt80:>6.1%}"
        for row in rows
    ]
    return "\n".join(lines)
