"""Tests here run once for each of the three formats when they ask for ``spoken``."""

import pytest

from support.scripted_formats import SPOKEN, Spoken


@pytest.fixture(params=SPOKEN)
def spoken(request: pytest.FixtureRequest) -> Spoken:
    """One of the three formats."""
    return SPOKEN[request.param]
