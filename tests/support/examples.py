"""How many examples a property gets: more or fewer than others, in `make quick` and `make search` too."""

from hypothesis import settings


def share(part: float) -> int:
    """Return that part of the examples of the profile."""
    return max(1, round(settings().max_examples * part))
