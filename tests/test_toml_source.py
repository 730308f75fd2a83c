"""The line of every key, for any document that ``tomllib`` accepts."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.toml_source import KeyPath, TomlSource, key_places, path_in

DOCUMENT = '''\
# a comment with [brackets] and key = "value"
top = 1

[upstreams.main]   # header
base_url = "https://llm.example.com/v1"  # = and [x]
"quoted key" = 'single # not a comment'
a.b.c = 2

[models]
small = { upstream = "main", input_per_million = 0.10, nested = { deep = true } }
large = { features = [
  "tools",
], upstream = "main" }

[text]
long = """
[not.a.table]
api_key = "no"
quotes at the end \\""""""
list = [
  1, # one
  [2, 3],
  "]",
]
after = 1979-05-27 07:32:00

[[array]]
x = 1
[[array]]
x = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("top", 2),
        ("upstreams", 4),
        ("upstreams.main", 4),
        ("upstreams.main.base_url", 5),
        ("upstreams.main.quoted key", 6),
        ("upstreams.main.a", 7),
        ("upstreams.main.a.b.c", 7),
        ("models.small", 10),
        ("models.small.input_per_million", 10),
        ("models.small.nested.deep", 10),
        ("models.large", 11),
        ("models.large.upstream", 13),
        ("text.long", 16),
        ("text.list", 20),
        ("text.after", 25),
        ("array", 27),
        ("array.0.x", 28),
        ("array.1", 29),
        ("array.1.x", 30),
        ("models.large.features.0", 12),
        ("text.list.1.1", 22),
    ],
)
def test_line_of_a_key(path: str, line: int) -> None:
    tomllib.loads(DOCUMENT)
    keys = tuple(int(part) if part.isdecimal() else part for part in path.split("."))
    assert key_places(DOCUMENT)[keys].line == TomlSource(DOCUMENT, "f").line(keys) == line


def test_what_is_not_there_is_looked_for_in_the_tables_above_it() -> None:
    source = TomlSource(DOCUMENT, "f.toml")
    assert source.at(("models", "small", "absent", "more")) == "f.toml:10"
    assert source.line(("models", None, "upstream")) == 10
    assert source.line(("absent",)) == source.line(()) == 1


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("Expected `int` - at `$.dimensions[2].weight`", ("dimensions", 2, "weight")),
        ("Object contains unknown field `x` - at `$.groups[...]`", ("groups", None, "x")),
        ("Object contains unknown field `x`", ("x",)),
        ("two dimensions are named", ()),
    ],
)
def test_the_path_in_a_message(message: str, path: tuple[object, ...]) -> None:
    assert path_in(message) == (message.partition(" - at ")[0], path)


def test_nothing_inside_a_string_is_a_key() -> None:
    assert ("text", "key") not in key_places(DOCUMENT)
    assert ("not",) not in key_places(DOCUMENT)


def test_the_span_of_a_value_is_its_text() -> None:
    places = key_places(DOCUMENT)

    def value(*path: str) -> str:
        return DOCUMENT[places[path].value_start : places[path].value_end]

    assert value("upstreams", "main", "base_url") == '"https://llm.example.com/v1"'
    assert value("models", "small", "input_per_million") == "0.10"
    assert value("text", "after") == "1979-05-27 07:32:00"


def test_escapes_in_quoted_keys() -> None:
    document = '"a\\tb" = 1\n"\\u00e9\\\\" = 2\n\'c\\d\' = 3\n'
    assert {(key,) for key in tomllib.loads(document)} == set(key_places(document))


def _paths(value: Any, prefix: KeyPath = ()) -> set[KeyPath]:
    if isinstance(value, list):
        numbered = {(*prefix, number): item for number, item in enumerate(value)}
        return {*numbered, *(path for at, item in numbered.items() for path in _paths(item, at))}
    if not isinstance(value, dict):
        return set()
    below = {path for key, item in value.items() for path in _paths(item, (*prefix, key))}
    return below | {(*prefix, key) for key in value}


_KEYS = st.sampled_from(["a", "b-c", '"q.r"', "'s t'", '"\\n"', "1"])
_SCALARS = st.sampled_from(
    ["1", "-2.5e3", "true", '"x # y"', "'{[='", '"""m\n[k]\na = "b" """', "'''\n]'''", '"\\""', "1979-05-27"]
)


def _inline(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arrays = st.lists(values, max_size=3).map(lambda items: "[ " + ",\n # c ]\n ".join(items) + " ]")
    tables = st.dictionaries(_KEYS, values, max_size=3).map(
        lambda items: "{" + ", ".join(f"{key} = {value}" for key, value in items.items()) + "}"
    )
    return arrays | tables


_VALUES = st.recursive(_SCALARS, _inline, max_leaves=6)
_TABLES = st.dictionaries(
    st.lists(_KEYS, min_size=1, max_size=3).map(".".join),
    st.dictionaries(_KEYS, _VALUES, max_size=3),
    max_size=3,
)


@given(_TABLES)
def test_every_key_of_any_document_has_a_place(tables: dict[str, dict[str, str]]) -> None:
    document = "".join(
        f"[{header}] # t\n" + "".join(f"  {key} = {value}\n" for key, value in pairs.items())
        for header, pairs in tables.items()
    )
    try:
        parsed = tomllib.loads(document)
    except tomllib.TOMLDecodeError:  # a table and a key of one name
        return
    assert set(key_places(document)) == _paths(parsed)
