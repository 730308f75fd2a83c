"""``pointsman classify``, line by line."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.errors import ConfigError
from support.learned_routers import blank


def classify(
    tmp_path: Path, *lines: object, args: tuple[str, ...] = ("--profile", "seed")
) -> tuple[int, list[Any]]:
    file = tmp_path / "lines.jsonl"
    rows = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    result = CliRunner().invoke(app, ["classify", str(file), *args])
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_a_text_gives_the_fields_of_the_contract_in_order(tmp_path: Path) -> None:
    code, [answer] = classify(tmp_path, {"id": 7, "text": "Hello!"}, args=("--profile", "seed"))
    assert code == 0
    assert list(answer) == [
        "id",
        "tier",
        "score",
        "confidence",
        "signals",
        "stage",
        "needs_verification",
        "extracted",
        "elapsed_us",
    ]
    assert (answer["id"], answer["tier"], answer["extracted"]) == (7, "SIMPLE", "Hello!")
    assert answer["signals"] == ["short (1 tokens)", "simple (hello)"]
    assert answer["elapsed_us"] > 0


@pytest.mark.parametrize(
    ("format", "messages"),
    [
        ("chat", [{"role": "user", "content": "What is 2+2?"}]),
        ("responses", [{"type": "message", "role": "user", "content": "What is 2+2?"}]),
        ("messages", [{"role": "user", "content": [{"type": "text", "text": "What is 2+2?"}]}]),
    ],
)
def test_messages_of_each_format(tmp_path: Path, format: str, messages: list[object]) -> None:  # noqa: A002
    system = "You write json schema for the api and kubernetes architecture. " * 20
    line = {"id": "x", "messages": messages, "format": format, "system": system}
    code, [answer] = classify(tmp_path, line, args=("--profile", "seed"))
    assert (code, answer["extracted"], answer["tier"]) == (0, "What is 2+2?", "SIMPLE")


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '"text"',
        '{"id": 1}',
        '{"id": 1, "text": "a", "messages": []}',
        '{"id": 1, "text": 3}',
        '{"id": 1, "messages": [], "format": "soap"}',
        '{"id": 1, "messages": {}}',
    ],
)
def test_a_malformed_line_is_an_error_in_its_place_and_the_run_goes_on(tmp_path: Path, line: str) -> None:
    good = {"id": "good", "text": "Hello!"}
    code, answers = classify(tmp_path, good, "", line, good)
    assert code == 1
    assert [answer.get("id") for answer in answers] == ["good", None, "good"]
    assert answers[1]["error"]["line"] == 3
    assert answers[1]["error"]["message"]


def test_plain_text_is_told_what_a_line_is() -> None:
    result = CliRunner().invoke(app, ["classify", "--profile", "seed"], input="hello world\n")
    assert result.exit_code == 1
    assert result.stderr == '  hint: a line is {"text": "…"}, or {"messages": […], "format": "chat"}\n'


def test_half_an_emoji_is_read_as_the_gateway_reads_it(tmp_path: Path) -> None:
    code, answers = classify(tmp_path, {"id": 1, "text": "prove it \ud83d"}, {"id": 2, "text": "\U0001f600"})
    assert code == 0
    assert [answer["extracted"] for answer in answers] == ["prove it \ufffd", "\U0001f600"]


def test_a_session_keeps_its_memory_between_lines(tmp_path: Path) -> None:
    texts = [
        "investigate Acme Corporation through its API",
        "investigate the owners of Acme through the API",
        "research Acme's filings with the API",
        "investigate Acme's directors through the API",
        "ls",
    ]
    lines = [{"id": n, "text": text, "session": "s", "turn": n} for n, text in enumerate(texts)]
    _, answers = classify(tmp_path, *lines)
    domains = answers[-1]["domains"]
    assert domains["raw"]["primary"] == "file_ops"
    assert domains["effective"]["primary"] == "investigation"
    assert domains["effective"]["carried"] is True
    assert set(domains) == {"raw", "effective", "signature", "momentum", "rule", "enrichment_plan"}


def test_the_same_words_in_another_turn_are_another_message(tmp_path: Path) -> None:
    line = {"text": "investigate Acme", "session": "s"}
    _, answers = classify(tmp_path, {**line, "turn": 1}, {**line, "turn": 1}, {**line, "turn": 2})
    assert [answer["domains"]["momentum"] for answer in answers] == [1, 1, 2]


def test_the_score_is_that_of_the_learned_router_where_one_is_given(tmp_path: Path) -> None:
    """Who sorts by "score" ranks by the router; the rules' own stands beside it, and the tier is theirs."""
    line = {"text": "Prove step by step that the square root of two is irrational."}
    _, [rules] = classify(tmp_path, line, args=("--profile", "default"))
    scores = []
    for number, slope in enumerate((0.0, 0.5)):
        file = tmp_path / f"{number}.json"
        file.write_bytes(msgspec.json.encode(blank(rules_slope=slope, similarity=(-1.0, -0.5))))
        code, [found] = classify(tmp_path, line, args=("--profile", "default", "--learned-router", str(file)))
        assert (code, found["tier"], found["rules_score"]) == (0, rules["tier"], rules["score"])
        assert found["score"] == found["learned_router"]["score"]
        scores.append(found["score"])
    assert scores[0] != scores[1]
    assert "rules_score" not in rules


def test_an_unknown_profile_names_the_known_ones(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["classify", "--profile", "sede"], input="")
    assert isinstance(result.exception, ConfigError)
    assert result.exception.message == 'no tier profile "sede"'
