"""The error tree in the docstring is the one in the code, with the statuses it promises."""

import re

import pytest

from pointsman import errors
from pointsman.errors import PointsmanError

LINE = re.compile(r"^[ │├└─]*(?P<name>[A-Z]\w+)(?:\s{2,}.*?(?P<status>\d{3}))?", re.MULTILINE)

ERRORS = [
    name
    for name in errors.__all__
    if isinstance(kind := getattr(errors, name), type) and not issubclass(kind, Warning)
]


def drawn() -> dict[str, tuple[int, str | None]]:
    """Name -> (depth, status) as drawn."""
    assert errors.__doc__
    tree = errors.__doc__[errors.__doc__.index("PointsmanError") :]
    found = {}
    for line in tree.splitlines():
        match = LINE.match(line)
        if match and match["name"] in ERRORS:
            found[match["name"]] = (line.index(match["name"]), match["status"])
    return found


def test_every_error_is_drawn_and_nothing_else() -> None:
    assert sorted(drawn()) == sorted(ERRORS)


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_the_status_and_the_parent_are_those_drawn(name: str) -> None:
    depth, status = drawn()[name]
    kind = getattr(errors, name)
    assert issubclass(kind, PointsmanError)
    if status and not status.endswith("xx"):
        assert kind.status == int(status)
    above = [other for other, (column, _) in drawn().items() if column < depth]
    parents = {parent.__name__ for parent in kind.__mro__[1:] if parent.__name__ in ERRORS}
    assert parents <= set(above)


def test_a_hint_is_the_way_out_and_in_the_text_of_the_error() -> None:
    error = errors.MissingExtra("gateway", needed_for="pointsman serve")
    assert error.message == "pointsman serve needs an optional dependency"
    assert error.hint == "pip install 'pointsman[gateway]'"
    assert str(error) == f"{error.message}; {error.hint}"


def test_a_configuration_error_names_its_place() -> None:
    error = errors.ConfigError("unknown key", place="pointsman.toml:14", hint="look again")
    assert error.message == "pointsman.toml:14: unknown key"
    assert str(error) == "pointsman.toml:14: unknown key; look again"


@pytest.mark.parametrize(
    ("word", "said"),
    [("teirs", '; did you mean "tiers"?'), ("tiers", '; did you mean "tiers"?'), ("ledger", ""), ("", "")],
)
def test_the_nearest_word_is_named_where_one_is_near(word: str, said: str) -> None:
    assert errors.did_you_mean(word, ["models", "tiers"]) == said
