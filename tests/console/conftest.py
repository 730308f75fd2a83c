"""One browser over a gateway of its own."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from support.consoles import Browser, console_gateway


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser on this machine, at a gateway without keys."""
    with closing(Browser(console_gateway())) as made:
        yield made
