"""What ``fit tiers`` says of a router that beats length and not the rules."""

from types import SimpleNamespace
from typing import cast

from pointsman.cli.fit import _verdict
from pointsman.learning.fit import Fit
from pointsman.tiers.learned_router import Claim


def verdict(default: tuple[float, float, float], length: tuple[float, float, float]) -> str:
    against = {"length": length, "default": default}
    improves = all(low > 0 for _, low, _ in against.values())
    router = SimpleNamespace(claim=Claim(600, 0.6, 0.5, 0.7, against, improves))
    return _verdict(cast("Fit", SimpleNamespace(learned_router=router, improves=improves)))


def test_a_verdict_names_what_is_not_beaten() -> None:
    shown, open_ = (0.05, 0.01, 0.09), (0.02, -0.01, 0.05)
    assert verdict(shown, shown).startswith("improvement: held out, the learned router ranks better")
    assert verdict(open_, shown).startswith("better than length, no improvement shown over default: ")
    assert verdict(open_, open_).startswith("no improvement shown: held out")
