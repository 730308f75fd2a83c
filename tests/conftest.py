"""For every test: its own place for compiled patterns, no configuration of the user, and steady examples."""

import os
from pathlib import Path

import certifi
import pytest
from hypothesis import settings

# A client reads all authorities when it is made, 35 ms each time: here none calls beyond this machine.
AUTHORITY = str(Path(__file__).parent / "support" / "one_authority.pem")
os.environ["SSL_CERT_FILE"] = AUTHORITY
setattr(certifi, "where", lambda: AUTHORITY)  # noqa: B010 - for clients that do not read the environment
# Each worker keeps one core busy: two threads for a matrix of a few hundred rows only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A change is judged by the same examples every time; `make search` looks for new ones, and many more.
# No deadline: how long an example takes says how busy the machine is.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=10)
settings.register_profile("search", max_examples=2_000, deadline=None)
settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "cache"):  # with pytest's own, never in the user's
        os.environ["POINTSMAN_CACHE_DIR"] = str(config.cache.mkdir("patterns"))
        os.environ["XDG_CONFIG_HOME"] = str(config.cache.mkdir("no-configuration"))
        os.environ["XDG_STATE_HOME"] = str(config.cache.mkdir("no-state"))
