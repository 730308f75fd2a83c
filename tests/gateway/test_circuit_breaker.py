"""The circuit breaker: what opens it, what does not, and how it closes."""

import random

import pytest

from pointsman.gateway._circuit_breaker import CircuitBreaker


def fed(results: str, every: float = 0.1) -> CircuitBreaker:
    """A breaker after some requests: ``.`` answered, ``x`` failed, a letter: failed in that session."""
    breaker = CircuitBreaker()
    for number, result in enumerate(results):
        if result == ".":
            breaker.record_success(number * every)
        else:
            breaker.record_failure(number * every, None if result == "x" else result)
    return breaker


@pytest.mark.parametrize(
    ("results", "is_open"),
    [
        ("x" * 9, False),
        ("x" * 10, True),
        ("abcdefghi", False),
        ("abcdefghij", True),
        ("a" * 100, False),  # one session
        ("ab" * 100, False),
        ("xxxxxxxx..", False),  # after two answers it is judged at the next failure
        ("xxxxxxxx..x", True),
        ("xxxxxxx...xx", False),
        ("." * 100 + "x" * 9, False),  # while all goes well nothing is counted
        ("." * 100 + "x" * 10, True),
        ("x...." * 50, False),
        ("xx" + "." * 18 + "x" * 15, False),
        ("xx" + "." * 18 + "x" * 16, True),  # of the last twenty
    ],
)
def test_what_opens_it(results: str, is_open: bool) -> None:
    assert fed(results).is_open == is_open


@pytest.mark.parametrize(
    ("callers", "is_open"),
    [
        ([""] * 10, True),  # one caller, or none that is known
        (["bob"] * 100, False),
        (["bob"] * 100 + ["alice"] * 4, False),
        (["bob"] * 100 + ["alice"] * 5, True),
        (["bob", "alice"] * 5, True),
        (["bob", "alice", "carol"] * 4, True),
    ],
)
def test_no_caller_opens_it_alone(callers: list[str], is_open: bool) -> None:
    breaker = CircuitBreaker()
    for number, caller in enumerate(callers):
        breaker.record_failure(number * 0.1, f"session {number}", caller)
    assert breaker.is_open == is_open


@pytest.mark.parametrize(
    ("requests", "avoids", "is_open"),
    [
        (["a1"] * 100, [], False),  # one request again and again
        (["a1", "a2", "a3", "a4"], [], False),
        (["a1", "a2", "a3", "a4"] * 20, [], False),
        (["a1", "a2", "a3", "a4", "a5"], ["a"], False),  # the session alone
        ([f"a{number}" for number in range(100)], ["a"], False),
        (["a1", "a2", "a3", ".", "a4", "a5"], [], False),  # the upstream works
        ([f"{session}{number}" for session in "ab" for number in range(4)], [], False),
        ([f"{session}{number}" for session in "ab" for number in range(5)], ["a", "b", "c"], True),
    ],
)
def test_a_session_whose_requests_all_fail_goes_elsewhere_alone(
    requests: list[str], avoids: list[str], is_open: bool
) -> None:
    """Once, 30 of 30 requests of one agent waited for a dead upstream."""
    breaker = CircuitBreaker()
    for number, name in enumerate(requests):
        if name == ".":
            breaker.record_success(number * 0.01)
        else:
            breaker.record_failure(number * 0.01, name[0], "", int(name[1:]))
    now = len(requests) * 0.01
    assert [session for session in "abc" if breaker.seconds_to_wait(now, session)] == avoids
    assert breaker.is_open == is_open


def test_a_probe_that_waits_long_is_seldom() -> None:
    breaker, now = CircuitBreaker(), 0.0
    for request in range(5):
        breaker.record_failure(now := now + 60.0, "a", "", request, 60.0)
    waited = 0.0
    for request in range(5, 15):
        now += breaker.seconds_to_wait(now, "a")
        assert breaker.seconds_to_wait(now, "a") == 0.0
        breaker.record_failure(now := now + 60.0, "a", "", request, 60.0)
        waited += 60.0
    assert waited <= 0.25 * now
    now += breaker.seconds_to_wait(now, "a")
    assert breaker.seconds_to_wait(now, "a") == 0.0
    breaker.record_success(now)
    assert (breaker.seconds_to_wait(now, "a"), breaker.is_alert) == (0.0, False)


def test_answers_that_came_while_the_first_failure_waited_count() -> None:
    """Once, twelve of twenty requests at once were answered first, and ten failures after them opened it."""
    for answered, is_open in ((0, True), (1, True), (2, True), (3, False), (12, False)):
        breaker = CircuitBreaker()
        for number in range(answered):
            breaker.record_success(0.01 * number)
        for number in range(10):
            breaker.record_failure(0.2 + 0.01 * number, f"s{number}", took=0.3)
        assert breaker.is_open == is_open, answered
    breaker = CircuitBreaker()
    for number in range(20):
        breaker.record_success(0.01 * number)
    for number in range(10):
        breaker.record_failure(10.0 + 0.01 * number, f"s{number}", took=0.3)
    assert breaker.is_open, "they were over before it was sent"


def test_the_sessions_that_it_knows_are_bounded() -> None:
    breaker = CircuitBreaker()
    for number in range(5_000):
        breaker.record_failure(0.0, f"s{number % 2_500}", "bob", number)
    assert len(breaker._streaks) <= 1_000


def test_a_failure_that_no_request_causes_counts_for_every_caller() -> None:
    breaker = CircuitBreaker()
    for number in range(10):
        breaker.record_failure(number * 0.1, None, "bob")
    assert breaker.is_open


def test_failures_that_are_old_count_no_more() -> None:
    assert not fed("x" * 100, every=7.0).is_open  # nine in a minute
    assert fed("x" * 100, every=6.0).is_open
    breaker = fed("xxx")
    breaker.record_success(100.0)
    assert (breaker.failures, breaker.requests) == (0, 0)


def test_one_probe_at_a_time_and_twenty_seconds_at_most() -> None:
    breaker, now, pauses = fed("x" * 10, every=0.0), 0.0, []
    for _ in range(5):
        wait = breaker.seconds_to_wait(now)
        pauses.append(wait)
        now += wait
        assert breaker.seconds_to_wait(now) == 0.0, "the probe"
        assert breaker.seconds_to_wait(now) > 0.0, "the others wait for it"
        breaker.record_failure(now)
        breaker.record_failure(now)  # of a request that was sent before
    assert pauses == [5.0, 10.0, 20.0, 20.0, 20.0]
    now += 20.0
    assert breaker.seconds_to_wait(now) == 0.0
    assert breaker.seconds_to_wait(now + 20.0) == 0.0, "a probe that never comes back is not waited for"
    breaker.record_success(now + 21.0)
    assert not breaker.is_open
    assert breaker.seconds_to_wait(now + 21.0) == 0.0
    assert breaker.pause == 5.0


def test_an_upstream_that_fails_three_times_in_ten_stays_in_use() -> None:
    breaker, chance, held_back = CircuitBreaker(), random.Random(7), 0
    for number in range(50_000):
        now = number * 0.1
        if breaker.seconds_to_wait(now):
            held_back += 1
        elif chance.random() < 0.3:
            breaker.record_failure(now, str(number))
        else:
            breaker.record_success(now)
    assert held_back < 500


def test_it_pauses_until_a_probe_may_be_sent() -> None:
    breaker = CircuitBreaker()
    assert not breaker.is_pausing(0.0)
    for number in range(10):
        breaker.record_failure(float(number))
    assert breaker.is_open
    assert breaker.is_pausing(13.9)
    assert not breaker.is_pausing(14.0)
    assert breaker.seconds_to_wait(14.0) == 0.0  # the probe
    assert breaker.is_pausing(14.1)
    breaker.record_success(15.0)
    assert not breaker.is_pausing(15.0)
