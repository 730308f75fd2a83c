"""Attacks on a gateway from outside, each with bounds. ``scripts/attack.py`` runs them."""

from attacks import bodies, disk, heads, outcomes, overload, unread, upstreams
from attacks.base import Attack

__all__ = ["ATTACKS"]

#: Every attack, in the order in which they run. One module for each surface; add yours here.
ATTACKS: tuple[Attack, ...] = (
    *bodies.ATTACKS,
    *heads.ATTACKS,
    *outcomes.ATTACKS,
    *unread.ATTACKS,
    *disk.ATTACKS,
    *overload.ATTACKS,
    *upstreams.ATTACKS,
)
