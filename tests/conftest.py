"""For every test: its own place for compiled patterns, no configuration of the user, and steady examples."""

from __future__ import annotations

import gc
import os
import ssl
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certifi
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from support.engines import Postgres, Valkey

# A client reads all authorities when it is made, 35 ms each time: here none calls beyond this machine.
AUTHORITY = str(Path(__file__).parent / "support" / "one_authority.pem")
os.environ["SSL_CERT_FILE"] = AUTHORITY
setattr(certifi, "where", lambda: AUTHORITY)  # noqa: B010 - for clients that do not read the environment
# Days of an audit are those of this machine's zone.
os.environ["TZ"] = "UTC"
time.tzset()
# One context for all clients that trust it: tests make a client for each request, and a context takes 1 ms.
_context, _fresh = ssl.create_default_context(cafile=AUTHORITY), ssl.create_default_context


def _shared_context(*purpose: Any, **given: Any) -> ssl.SSLContext:
    return _context if (purpose, given) == ((), {"cafile": AUTHORITY}) else _fresh(*purpose, **given)


ssl.create_default_context = _shared_context
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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what collection makes out of garbage collection: a million objects that live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def shared_scanners() -> Iterator[None]:
    """Compile the built-in profiles once per worker: thousands of tests make an engine of one."""
    from support.scanners import shared

    with shared():
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL for this worker: ``postgres.database()`` is the address of an empty database."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra `postgres`")
    from support import engines

    programs = engines.find_postgres()
    if programs is None:
        pytest.skip("there is no PostgreSQL here: make services installs it")
    with engines.postgres(programs) as server:
        yield server


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """A real Valkey, or Redis, for this worker; a test empties what it uses."""
    from support import engines

    program = engines.find_valkey()
    if program is None:
        pytest.skip("there is no valkey-server or redis-server here: make services installs one")
    with engines.valkey(program) as server:
        yield server
