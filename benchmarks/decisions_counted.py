"""Decides fresh texts, for ``instructions.py``: ``decisions_counted.py CHARACTERS:TEXTS …``.

Calls ``sched_yield``, which nothing else does, before and behind the texts of each size.
"""

import os
import random
import sys

from decision import fresh_text
from pointsman.stores.pattern_cache import open_scanner
from pointsman.tiers import TierScorer, builtin_profile


def main() -> None:
    profile = builtin_profile("default")
    # As pointsman.factory builds it: to undo the form of a text is part of a decision.
    name = profile.name if profile.normalise else ""
    scanner = open_scanner(profile.signals(), normalised_for=name, lowering=profile.lowering)
    scorer = TierScorer(profile, scanner.table)
    dice = random.Random(0)
    for asked in sys.argv[1:]:
        size, count = map(int, asked.split(":"))
        texts = [fresh_text(size, dice) for _ in range(count + 2)]
        for text in texts[:2]:  # what is compiled at the first use
            scorer.by_rules(scanner.scan(text))
        os.sched_yield()
        for text in texts[2:]:
            scorer.by_rules(scanner.scan(text))
        os.sched_yield()


if __name__ == "__main__":
    main()
