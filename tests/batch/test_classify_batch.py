"""``classify_batch``: one row for each row, pure and picklable."""

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from pointsman.batch import BatchClassifier, classify_batch
from pointsman.batch.classify import SCHEMA
from pointsman.batch.columns import named
from pointsman.cli import app
from pointsman.errors import ConfigError
from support.parquet import texts

ASKED = [{"role": "user", "content": "What is 2+2?"}]
HELLO = {"model": "gpt-9", "messages": [{"role": "user", "content": "Hello!"}]}


def test_a_row_is_decided_as_a_line_of_the_command(tmp_path: Path) -> None:
    asked = texts(20)
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps({"id": id_, "text": text}) + "\n" for id_, text in enumerate(asked)))
    said = CliRunner().invoke(app, ["classify", str(lines)]).stdout.splitlines()
    rows = classify_batch(pa.record_batch({"text": asked, "id": list(range(20))})).to_pylist()
    compared = ("id", "tier", "score", "confidence", "stage")
    assert [[row[name] for name in compared] for row in rows] == [
        [json.loads(line)[name] for name in compared] for line in said
    ]
    assert {row["tier"] for row in rows} >= {"SIMPLE", "MEDIUM"}


def test_the_columns_are_those_of_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/batch.md").read_text("utf-8")
    for field in SCHEMA:
        assert f"| `{field.name}` | {field.type} |".replace("element", "item") in page, field


def test_each_row_has_domains_versions_and_flags() -> None:
    [row] = classify_batch(pa.record_batch({"text": ["Fix the bug in the parser"]})).to_pylist()
    assert row["domains"] == ["bugfix"]
    assert (row["explanation_version"], row["policy_version"]) == (3, BatchClassifier().version)
    assert (row["flags"], row["error"], row["capabilities"]) == ([], None, None)


def test_the_result_does_not_depend_on_how_rows_are_divided() -> None:
    whole = pa.record_batch({"text": texts(30)})
    parts = [whole.slice(0, 7), whole.slice(7, 0), whole.slice(7)]
    assert pa.Table.from_batches(map(classify_batch, parts)).to_pylist() == classify_batch(whole).to_pylist()


def test_it_is_picklable_and_the_policy_goes_with_it(tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text('[tiers]\nprofile = "seed"\n')
    batch = pa.record_batch({"text": texts(5)})
    made = BatchClassifier.from_config(config)
    config.unlink()
    again = pickle.loads(pickle.dumps(made))
    assert again(batch).equals(made(batch))
    assert again.version != BatchClassifier().version
    assert pickle.loads(pickle.dumps(classify_batch)) is classify_batch


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["What is 2+2?"], pa.string()),
        pa.array(["What is 2+2?"], pa.large_string()),
        pa.array(["What is 2+2?"], pa.string_view()),
        pa.array(["What is 2+2?"]).dictionary_encode(),
    ],
    ids=str,
)
def test_texts_of_every_type(column: pa.Array) -> None:
    [row] = classify_batch(pa.record_batch({"text": column})).to_pylist()
    assert (row["tier"], row["error"]) == ("SIMPLE", None)


@pytest.mark.parametrize(
    "columns",
    [
        {"messages": [json.dumps(ASKED)]},
        {"messages": [json.dumps(ASKED).encode()]},
        {"messages": [ASKED]},
        {"messages": [[*ASKED, {"role": "assistant", "tool_calls": []}]]},  # structs: absent members are null
        {"messages": [json.dumps(ASKED)], "format": ["messages"]},
        {"messages": [json.dumps(ASKED)], "format": pa.array([None], pa.string())},
        {"request": [json.dumps({"model": "gpt-9", "messages": ASKED})]},
        {"request": [json.dumps({"input": "What is 2+2?"}).encode()], "format": ["responses"]},
        {"request": ['{"messages": [{"role": "user", "content": "What is 2+2? \\ud83d"}]}']},
    ],
    ids=range(9),
)
def test_messages_and_requests(columns: dict[str, Any]) -> None:
    [row] = classify_batch(pa.record_batch(columns)).to_pylist()
    assert (row["tier"], row["domains"], row["error"]) == ("SIMPLE", ["conversation"], None)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"text": pa.array([None], pa.string())}, "the text is null"),
        ({"messages": pa.array([None], pa.string())}, "the messages are null"),
        ({"messages": ["{"]}, "the messages are no JSON array"),
        ({"messages": ["3"]}, "the messages are no JSON array"),
        ({"messages": ["[]"], "format": ["soap"]}, 'no wire format "soap"'),
        ({"request": [b"\xff"]}, "not valid JSON"),
        ({"request": ['{"messages": 3}']}, "messages"),
        ({"request": pa.array([None], pa.string())}, "the request is null"),
    ],
)
def test_a_row_that_cannot_be_read_says_why_and_the_others_are_decided(
    columns: dict[str, Any], error: str
) -> None:
    bad = classify_batch(pa.record_batch(columns))
    [row] = bad.to_pylist()
    assert error in row["error"]
    assert (row["tier"], row["flags"]) == (None, ["error"])
    good = {"request": [json.dumps(HELLO)]} if "request" in columns else {"text": ["Hello!"]}
    assert classify_batch(pa.record_batch(good)).schema == bad.schema


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": [1]}, 'column "text" is of type int64; expected is string'),
        ({"messages": [[1]]}, 'column "messages" is of type list<'),
        (
            {"request": [{"a": 1}]},
            'column "request" is of type struct<a: int64>; expected is string or binary',
        ),
        ({"prompt": ["Hello!"]}, "there is no column to read"),
        ({"messages": ["[]"], "format": [1]}, 'column "format" is of type int64; expected is string'),
    ],
)
def test_a_column_that_is_missing_or_of_another_type(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("<", ".")):
        classify_batch(pa.record_batch(columns))


def test_another_column_can_be_named() -> None:
    batch = pa.record_batch({"prompt": ["Hello!"], "text": [3]})
    assert BatchClassifier(column=named("text=prompt"))(batch).to_pylist()[0]["tier"] == "SIMPLE"
    with pytest.raises(ConfigError, match="names no column to read"):
        named("words=prompt")
    with pytest.raises(ConfigError, match='there is no column "prompts"; expected is string'):
        BatchClassifier(column=named("text=prompts"))(batch)


def test_no_rows_give_no_rows_of_the_same_columns() -> None:
    none = pa.record_batch({"text": pa.array([], pa.string())})
    assert classify_batch(none).schema == SCHEMA
