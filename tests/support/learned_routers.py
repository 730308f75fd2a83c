"""A learned router that learned nothing, to be changed where a test needs it."""

import msgspec

from pointsman.tiers.learned_router import Calibration, Claim, LearnedRouter
from pointsman.tiers.ngrams import BUCKETS

ZEROS = bytes(2 * BUCKETS)
CALIBRATION = Calibration(0.0, 1.0, 0.0)


def blank(**changed: object) -> LearnedRouter:
    """A learned router that learned nothing."""
    learned_router = LearnedRouter(
        rows=1,
        rarity=b"\x00\x3c" * BUCKETS,  # 1.0
        centres=(),
        weak=ZEROS,
        strong=ZEROS,
        weak_mean=0.0,
        strong_mean=0.0,
        log_length=3.0,
        length_slope=0.06,
        rules="default",
        rules_mean=0.0,
        rules_slope=0.05,
        similarity=(0.2, 0.6),
        weak_calibration=CALIBRATION,
        strong_calibration=CALIBRATION,
        claim=Claim(rows=1, apgr=0.5, low=0.4, high=0.6, against={}, improves=False),
        lengths=(3.0,),
        similarities=(1.0,),
    )
    return msgspec.structs.replace(learned_router, **changed)
