"""What the log says of an upstream that fails and works in turn stays bounded."""

import logging

import pytest

from pointsman.gateway._circuit_breaker import Trouble

OPENED = 'the circuit breaker of upstream "main" opened: {}; the last: answered with status 500'
AGAIN = 'upstream "main" works again'


def test_an_upstream_that_fails_and_works_in_turn(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("main")
    with caplog.at_level(logging.WARNING, "pointsman"):
        for second in range(180):
            trouble.failed('the upstream cannot be reached (upstream "main")', float(second))
            if trouble.is_told:
                trouble.worked()
    lines = [record.getMessage() for record in caplog.records]
    assert (
        lines
        == [
            'upstream "main" began to fail: the upstream cannot be reached',
            AGAIN,
        ]
        * 3
    )


def test_a_breaker_that_opens_is_told_once_until_it_works(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("main")
    with caplog.at_level(logging.WARNING, "pointsman"):
        for _ in range(3):
            trouble.opened('upstream "main" answered with status 500', 9, 10, 5.0)
        trouble.worked()
        trouble.opened('upstream "main" answered with status 500', 16, 20, 10.0)
    assert [record.getMessage() for record in caplog.records] == [
        OPENED.format("9 of the last 10 requests failed, next try in 5 s"),
        AGAIN,
        OPENED.format("16 of the last 20 requests failed, next try in 10 s"),
    ]
