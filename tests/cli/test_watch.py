"""``pointsman watch``: its contract, on every format, and what it must show."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import PointsmanError
from support.servers import Asked, ScriptedUpstream, reply

SHARED = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[3] / "shared"))
RUNS = SHARED / "data" / "trajectories" / "step_features.jsonl.gz"


def watch(*arguments: str, lines: Sequence[object] | None = None) -> Result:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines or [])
    return CliRunner().invoke(app, ["watch", *arguments], input=text)


def steps(count: int, **fields: Any) -> list[dict[str, Any]]:
    base = {"tool": "edit", "args": "a", "res": "r", "err": True, "err_sig": "e", "batch": 1}
    return [
        {**base, "args": f"a{n}", "turn": n, "res_len": 9, "user_after": False} | fields for n in range(count)
    ]


def test_no_runs_are_said_on_standard_error(tmp_path: Path) -> None:
    said = watch()
    assert (said.exit_code, said.stdout) == (0, "")
    assert said.stderr == "pointsman: no runs in standard input: nothing to replay\n"
    file = tmp_path / "runs.jsonl"
    file.write_text("\n")
    assert watch(str(file), "--summary").stderr == f"pointsman: no runs in {file}: nothing to replay\n"
    assert watch(lines=[{"id": 3, "steps": steps(1)}]).stderr == ""


def test_one_line_a_firing_with_the_fields_of_the_contract() -> None:
    result = watch(lines=[{"id": 3, "steps": steps(4), "exit_status": None}])
    assert result.exit_code == 0
    [line] = [json.loads(line) for line in result.stdout.splitlines()]
    assert list(line.items()) == [
        ("id", 3),
        ("step", 2),
        ("provider", "diagnostic_signal"),
        ("classifier", "error_streak"),
        ("confidence", 0.5),
        ("reason", "3 consecutive errors"),
        ("delivered", True),
    ]


def test_an_agents_own_log_is_named_once(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text('{"type": "user", "sessionId": "s", "uuid": "u"}\n' * 3)
    found = watch(str(file))
    assert isinstance(found.exception, PointsmanError)
    assert (found.stdout, found.exception.hint) == ("", f"pointsman audit {file}")
    assert found.exception.message == f"{file} is a log of claude-code, not runs"


def failing(wire: str, number: int) -> list[dict[str, Any]]:
    arguments = json.dumps({"n": number})
    match wire:
        case "chat":
            call = {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": "edit", "arguments": arguments},
            }
            return [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": "Error: no such file"},
            ]
        case "responses":
            return [
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "call_id": f"c{number}", "name": "edit", "arguments": arguments},
                {
                    "type": "function_call_output",
                    "call_id": f"c{number}",
                    "output": "Exit code: 1\nOutput:\nno",
                },
            ]
        case _:
            use = {"type": "tool_use", "id": f"c{number}", "name": "edit", "input": {"n": number}}
            result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "no", "is_error": True}
            return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_every_format(wire: str) -> None:
    messages: list[object] = [{"role": "user", "content": "go"}]
    for number in range(4):
        messages += failing(wire, number)
    result = watch(lines=[{"id": "x", "format": wire, "messages": messages}])
    assert [json.loads(line)["step"] for line in result.stdout.splitlines()] == [2]


def test_a_batch_is_judged_when_its_last_result_is_there() -> None:
    batch = steps(3, turn=1, batch=3)
    result = watch(lines=[{"id": 1, "steps": [*batch[:2], {**batch[2], "err": False}]}])
    assert result.stdout == ""
    assert json.loads(watch(lines=[{"id": 1, "steps": batch}]).stdout)["step"] == 2


def test_withheld_runs_are_shown_as_not_delivered() -> None:
    lines = [{"id": f"run-{n}", "steps": steps(3)} for n in range(40)]
    shown = [
        json.loads(line)["delivered"] for line in watch("--control", "0.5", lines=lines).stdout.splitlines()
    ]
    assert len(shown) == 40
    assert 5 < sum(shown) < 35
    assert shown != [
        json.loads(line)["delivered"]
        for line in watch("--control", "0.5", "--seed", "1", lines=lines).stdout.splitlines()
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "malformed"),
        ({"id": 1}, 'either "steps" or "messages"'),
        ({"id": 1, "steps": [], "messages": []}, 'either "steps" or "messages"'),
        ({"id": 1, "steps": 7}, "array"),
        ({"id": 1, "messages": [], "format": "smoke"}, "Invalid enum value"),
        ('{"id": 1, "messages": ' + "[" * 100_000, "nested too deep"),
    ],
)
def test_a_malformed_line_is_reported_in_its_place(line: object, message: str) -> None:
    result = watch(lines=[line, {"id": 2, "steps": steps(3)}])
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert first["error"]["line"] == 1
    assert message in first["error"]["message"]
    assert (second["id"], result.exit_code) == (2, 1)


def test_hostile_messages_do_not_stop_a_replay() -> None:
    messages = [7, None, {"role": "tool"}, {"role": "assistant", "tool_calls": "x"}, *failing("chat", 1)]
    result = watch(lines=[{"id": 1, "messages": messages}])
    assert (result.exit_code, result.stdout) == (0, "")


def test_the_summary_counts_per_source_and_outcome_beside_baselines() -> None:
    lines = [
        {"id": 1, "source": "b", "success": False, "steps": steps(5)},
        {"id": 2, "source": "b", "success": False, "steps": steps(2)},
        {"id": 3, "source": "a", "success": True, "steps": steps(4, args="a", err=False)},
    ]
    rows = json.loads(watch("--summary", "--json", lines=lines).stdout)
    found = {(row["source"], row["success"], row["rule"]): row for row in rows}
    policy = found["b", False, "policy"]
    assert (policy["runs"], policy["fired"], policy["share"], policy["first"]) == (2, 1, 0.5, 2)
    assert (policy["followed"], policy["continued"]) == (1, 1)
    assert found["a", True, "policy"]["fired"] == 1
    assert found["a", True, "same call three times"]["first"] == 2
    assert found["a", True, "four equal calls and results"]["first"] == 3
    assert found["a", True, "calls in a cycle, five rounds"]["fired"] == 0
    assert found["a", True, "names in a cycle (seed)"]["fired"] == 0
    assert [row["source"] for row in rows] == ["a"] * 5 + ["b"] * 5
    table = watch("--summary", lines=[*lines, "broken"])
    assert "b, failed: 2 runs" in table.stdout
    assert '"line":4' in table.stderr
    assert table.exit_code == 1


def test_a_persons_word_after_the_firing_is_not_a_streak_going_on() -> None:
    told = steps(3) + steps(1)
    told[2]["user_after"] = True
    rows = json.loads(watch("--summary", "--json", lines=[{"id": 1, "steps": told}]).stdout)
    assert (rows[0]["fired"], rows[0]["followed"]) == (1, 0)


def test_names_in_a_cycle_are_what_the_seed_says() -> None:
    names = ["edit", "test"] * 3
    run = [
        {**step, "tool": tool, "err": False, "res": str(n)}
        for n, (step, tool) in enumerate(zip(steps(6), names, strict=True))
    ]
    rows = json.loads(watch("--summary", "--json", lines=[{"id": 1, "steps": run}]).stdout)
    assert {row["rule"]: row["first"] for row in rows if row["fired"]} == {"names in a cycle (seed)": 5}


@pytest.mark.data
@pytest.mark.skipif(not RUNS.exists(), reason="evaluation data is not here")
def test_on_recorded_runs_it_is_rarely_wrong_and_finds_more_than_the_baselines() -> None:
    rows = json.loads(watch("--summary", "--json", str(RUNS)).stdout)
    fired: dict[tuple[bool, str], int] = {}
    for row in rows:
        key = (row["success"], row["rule"])
        fired[key] = fired.get(key, 0) + row["fired"]
    runs = sum(row["runs"] for row in rows if row["success"] and row["rule"] == "policy")
    assert fired[True, "policy"] / runs <= 0.025
    baselines = [count for (success, rule), count in fired.items() if not success and rule != "policy"]
    assert fired[False, "policy"] > max(baselines)


def test_the_guidance_of_a_configuration_is_tried(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(
        '[guidance]\nmode = "off"\ndefault_providers = false\n[[guidance.providers]]\ntext = "Stop."\n'
        'point = "post_tool_result"\nclassifier = "sensitive_content"\n[[guidance.providers]]\n'
        'text = "Go on."\npoint = "pre_render"\nclassifier = { not = "error_streak" }\n'
    )
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"c": "cat secret"}'}}
    messages = [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "user", "content": "thanks"},
    ]
    result = watch("--config", str(file), lines=[{"id": 1, "messages": messages, "success": True}])
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["step"], line["classifier"]) for line in found] == [
        (-1, "not(error_streak)"),
        (0, "sensitive_content"),
        (0, "not(error_streak)"),
    ]
    summary = watch("--config", str(file), "--summary", "--json", lines=[{"id": 1, "messages": messages}])
    [row] = [row for row in json.loads(summary.stdout) if row["rule"] == "policy"]
    assert (row["runs"], row["fired"]) == (1, 1)


@pytest.mark.parametrize(("option", "fired"), [((), 0), (("--ask-models",), 1)])
def test_a_model_classifier_asks_only_when_told_to(
    tmp_path: Path, option: tuple[str, ...], fired: int
) -> None:
    async def yes(asked: Asked, send: Any) -> None:
        content = {"role": "assistant", "content": "yes"}
        await reply(send, 200, json.dumps({"choices": [{"message": content}]}).encode())

    upstream, file = ScriptedUpstream(yes), tmp_path / "pointsman.toml"
    with upstream.running() as url:
        file.write_text(
            f'[upstreams.a]\nbase_url = "{url}/v1"\nformats = ["chat"]\n'
            '[models]\nsmall = { upstream = "a", id = "small-1" }\n'
            '[guidance]\nmode = "off"\ndefault_providers = false\n[[guidance.providers]]\n'
            'point = "post_tool_result"\ntext = "Be brief."\n'
            'classifier = { name = "llm", model = "small", timeout_ms = 60_000 }\n'
        )
        result = watch("--config", str(file), *option, lines=[{"id": 1, "steps": steps(1)}])
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == fired
    assert len(upstream.asked) == fired
