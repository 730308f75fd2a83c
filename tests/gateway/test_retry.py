"""When an upstream says to come back, in every way it may say so."""

import time
from email.utils import formatdate

import pytest

from pointsman.gateway._failures import retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "-7"}, None),
        ({"retry-after-ms": "-7"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after-ms": "inf"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "\u00b2"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_what_is_asked_for(headers: dict[str, str], seconds: float | None) -> None:
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    assert retry_after(sent) == seconds


def test_a_date_to_come() -> None:
    asked = retry_after([(b"retry-after", formatdate(time.time() + 100, usegmt=True).encode())])
    assert asked is not None
    assert 90 < asked <= 100
