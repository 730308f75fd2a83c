"""Two calls that mean the same compare equal, and no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.trajectory import canonical_arguments, comes_from, is_polling


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1 }'),
        ('{"a":{"x":1,"y":2}}', '{"a":{"y":2,"x":1}}'),
        ('{"q":"x","request_id":"1"}', '{"q":"x","request_id":"2"}'),
        ('{"q":"x","traceId":"1","Timestamp":5}', '{"q":"x","traceId":"1","Timestamp":6}'),
        ('{"command":"ls","description":"List files"}', '{"command":"ls","description":"Show files"}'),
        ('{"a": 1', '{"a":   1'),  # malformed: white space folded
    ],
)
def test_equal(first: str, second: str) -> None:
    assert canonical_arguments(first) == canonical_arguments(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"a":1}', '{"a":2}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"title":"t","description":"one"}', '{"title":"t","description":"two"}'),  # here it is the payload
        ('{"user_id":"1"}', '{"user_id":"2"}'),
        ('{"command":"ls a"}', '{"command":"ls  a"}'),  # white space inside a value counts
    ],
)
def test_different(first: str, second: str) -> None:
    assert canonical_arguments(first) != canonical_arguments(second)


def test_decoded_arguments_equal_their_text() -> None:
    assert canonical_arguments({"b": 1, "a": [None]}) == canonical_arguments('{"a":[null],"b":1}')


def test_a_users_own_objects_do_not_break_it() -> None:
    assert canonical_arguments({"a": object}) == canonical_arguments({"a": object})


@pytest.mark.parametrize(
    "arguments", ["[" * 100_000, '{"a":' * 50_000, "\ud800", '"' + "x" * 2_000_000 + '"']
)
def test_hostile_arguments(arguments: str) -> None:
    assert isinstance(canonical_arguments(arguments), str)


@given(st.text())
def test_any_text_is_canonical_once(text: str) -> None:
    once = canonical_arguments(text)
    assert canonical_arguments(once) == once


@pytest.mark.parametrize(
    ("tool", "arguments", "polling"),
    [
        ("get_status", "{}", True),
        ("getJobStatus", "{}", True),
        ("wait", "{}", True),
        ("BashOutput", "{}", True),
        ("write_stdin", "{}", True),
        ("stateful_update", "{}", False),
        ("awaited", "{}", False),
        ("watchlist_add", "{}", False),
        ("bash", '{"command":"sleep 30; gh run view"}', True),
        ("bash", '{"command":"grep sleeper notes"}', False),
        ("bash", '{"command":"cat watch.py"}', False),
    ],
)
def test_polling(tool: str, arguments: str, polling: bool) -> None:
    assert is_polling(tool, arguments) is polling


@pytest.mark.parametrize(
    ("arguments", "result", "derived"),
    [
        ('{"path":"src/app.py"}', "src/app.py:12: match", True),
        ('{"path":"src/app.py"}', "src/other.py:12: match", False),
        ('{"path":"a"}', "a b c", False),  # too short to mean anything
        ('{"paths":["one.py","two.py"]}', "two.py", True),
        ('{"path":"src/app.py"}', "", False),
        ('{"command":"x"}', '{"command": true}', False),  # a key is not a value
    ],
)
def test_an_argument_that_the_result_before_gave(arguments: str, result: str, derived: bool) -> None:
    assert comes_from(arguments, result) is derived
