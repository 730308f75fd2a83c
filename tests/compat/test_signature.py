"""The two cases of ``restore_from_signature``: one domain, and two."""

from typing import Any

import pytest

from pointsman.compat.domains import restore_from_signature


def part(domain: str, confidence: int = 0) -> dict[str, Any]:
    return {"domain": domain, "confidence": confidence, "matched_signals": ["x"] * confidence}


@pytest.mark.parametrize("found", ["coding", "bugfix"])
def test_a_single_domain_takes_this_turns_confidence(found: str) -> None:
    assert restore_from_signature("coding", part(found, 2), part("planning", 1)) == (part("coding", 2), None)


@pytest.mark.parametrize(
    ("primary", "secondary", "restored"),
    [
        (part("coding", 2), part("bugfix", 1), (part("coding", 2), part("bugfix", 1))),
        (part("bugfix", 2), part("coding", 1), (part("bugfix", 2), part("coding", 1))),
        (part("coding", 2), part("planning", 1), (part("coding", 2), part("bugfix"))),
        (part("coding", 2), None, (part("coding", 2), part("bugfix"))),
        (part("planning", 2), part("coding", 1), (part("bugfix"), part("coding"))),  # neither is in it
    ],
)
def test_of_two_domains_the_new_primary_comes_first(
    primary: dict[str, Any], secondary: dict[str, Any] | None, restored: tuple[Any, Any]
) -> None:
    assert restore_from_signature("bugfix+coding", primary, secondary) == restored
