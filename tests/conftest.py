"""For every test: compiled patterns are kept with pytest's own cache, never in the user's."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if config.cache is not None:
        os.environ["POINTSMAN_CACHE_DIR"] = str(config.cache.mkdir("patterns"))
