"""Names of tools where there are no namespaces."""

import pytest

from pointsman.wire.tools import MAX_NAME, flat_name, wrapped


@pytest.mark.parametrize(
    ("namespace", "name", "flat"),
    [("", "ls", "ls"), ("mcp", "ls", "mcp__ls"), ("mcp__files", "ls", "mcp__files__ls")],
)
def test_a_namespace_is_joined_to_the_name(namespace: str, name: str, flat: str) -> None:
    assert flat_name(namespace, name) == flat


def test_names_that_are_cut_or_changed_stay_apart() -> None:
    long = [flat_name("n" * 60, f"tool_{number}") for number in range(3)]
    assert len(set(long)) == 3
    assert all(len(name) <= MAX_NAME for name in long)
    assert flat_name("a.b", "c") != flat_name("a:b", "c")
    assert flat_name("a.b", "c").startswith("a_b__c_")
    assert flat_name("", "a.b") != flat_name("", "a_b") == "a_b"


def test_the_input_of_a_custom_tool_is_an_argument() -> None:
    assert wrapped('a "b"\n') == '{"input":"a \\"b\\"\\n"}'
