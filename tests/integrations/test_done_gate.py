"""The gate at "done": what an agent that ends its work leaves unchecked, told once, through the hooks."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.errors import ConfigError
from pointsman.guidance import DecisionPoint, GuidancePolicy, Guide, Mode, ProviderSpec
from pointsman.integrations.hooks import (
    ClaudeCodeEvent,
    CodexEvent,
    HookState,
    answer_event,
    read_event,
    settings,
)
from support.agent_logs import ClaudeSession, CodexSession

RED = "F.\n=====\nFAIL: test_b (t.T.test_b)\n-----\nRan 2 tests in 0.1s\n\nFAILED (failures=1)"
RED_OTHER = RED.replace("test_b", "test_z")
RED_BOTH = RED.replace("FAIL: test_b (t.T.test_b)", "FAIL: test_b (t.T.test_b)\nFAIL: test_z (t.T.test_z)")
GREEN = "..\nRan 2 tests in 0.1s\n\nOK"
QUIET_RED = "...\n1 failed, 2 passed in 0.02s"

PROMPT: dict[str, Any] = {"hook_event_name": "UserPromptSubmit", "prompt": "Fix the stock."}
STOP: dict[str, Any] = {
    "hook_event_name": "Stop",
    "last_assistant_message": "Done.",
    "stop_hook_active": False,
}


def call(tool: str, response: str | None = None, *, failed: bool = False, **arguments: Any) -> dict[str, Any]:
    named = {"tool_name": tool, "tool_input": arguments}
    if failed:
        return {"hook_event_name": "PostToolUseFailure", **named, "error": f"Exit code 1\n{response}"}
    output: object = (
        {"stdout": response, "stderr": "", "interrupted": False} if tool == "Bash" else {"ok": True}
    )
    return {"hook_event_name": "PostToolUse", **named, "tool_response": output}


def bash(command: str, response: str = "", *, failed: bool = False) -> dict[str, Any]:
    return call("Bash", response, failed=failed, command=command)


def edit(path: str = "/w/stock.py") -> dict[str, Any]:
    return call("Edit", file_path=path, old_string="a", new_string="b")


def changed(old: str, new: str) -> dict[str, Any]:
    return call("Edit", file_path="/w/stock.py", old_string=old, new_string=new)


def patched(lines: str) -> dict[str, Any]:
    return bash(f"apply_patch <<'E'\n*** Begin Patch\n*** Update File: a.py\n@@\n{lines}\n*** End Patch\nE")


def ran(output: str, command: str = "python3 -m pytest tests") -> dict[str, Any]:
    return bash(command, output, failed="FAILED" in output)


REJECTED = call("Edit", "String to replace not found", failed=True, file_path="/w/stock.py")
LOOKED = bash("ls", "stock.py")
WORKED = bash("python3 main.py", "800")
BROKE = bash("python3 main.py", "Traceback", failed=True)
DECLINED = call("Bash", "The user doesn't want to proceed with this tool use.", failed=True, command="pytest")


def policy(**given: Any) -> GuidancePolicy:
    gate = ProviderSpec(provider="done_gate", **given)
    return GuidancePolicy(mode=Mode.ON, default_providers=False, providers=(gate,))


def answers(tmp_path: Path, of: GuidancePolicy, *events: dict[str, Any], session: str = "s") -> list[Any]:
    state, guide = HookState(tmp_path / "state.sqlite"), Guide(of)
    sent = [json.dumps({"session_id": session, "cwd": "/w", **each}).encode() for each in events]
    return [answer_event(read_event(each), state, guide) for each in sent]


BOTH = {"name": "unfinished", "evidence": ["tests_fail", "edited_after_tests"]}
ALL = {"name": "unfinished", "evidence": ["tests_fail", "edited_after_tests", "command_failed", "not_run"]}


@pytest.mark.parametrize(
    ("events", "told"),
    [
        # the last test run failed
        ([edit(), ran(RED)], "last test run of this task failed"),
        ([ran(RED), edit(), ran(RED)], "last test run of this task failed"),  # the asked one still fails
        ([ran(RED), edit(), ran(RED_BOTH)], "last test run of this task failed"),  # another one broke
        ([edit(), ran(GREEN), ran(RED)], "last test run of this task failed"),
        ([edit(), bash("pytest -q | tail -3", QUIET_RED)], "last test run of this task failed"),  # a pipe
        ([edit(), ran(RED), LOOKED], "last test run of this task failed"),
        ([edit(), ran(RED), edit("/w/NOTES.md")], "last test run of this task failed"),
        ([edit(), ran(RED), DECLINED], "last test run of this task failed"),
        ([edit(), ran(GREEN)], None),
        ([ran(RED), edit(), ran(GREEN)], None),
        ([ran(RED_BOTH), edit(), ran(RED_OTHER)], None),  # what still fails failed before the first edit
        ([edit(), ran(GREEN, "pytest t.py"), ran(RED_OTHER, "pytest")], None),  # others fail: since when?
        ([ran(RED)], None),  # asked to run the tests: nothing was edited
        ([edit(), ran(GREEN), bash("grep -rn FAILED logs", "FAILED (failures=1)")], None),
        ([edit(), bash("pytest", "bash: pytest: command not found", failed=True)], "neither a test nor"),
        ([edit(), bash("pytest", "no tests ran in 0.01s", failed=True), ran(GREEN)], None),
        ([edit(), ran(GREEN), bash("git commit -m done", "", failed=True)], None),
        # edits after the last test run
        ([edit(), ran(GREEN), edit()], "edited after the last test run"),
        ([ran(RED), edit()], "edited after the last test run"),
        ([edit(), ran(GREEN), bash("sed -i s/a/b/ stock.py")], "edited after the last test run"),
        ([edit(), ran(GREEN), edit("/w/README.md")], None),  # no test reads it
        ([edit(), ran(GREEN), changed("x = 1", "# one\nx = 1")], None),  # a comment alone
        ([edit(), ran(GREEN), changed("// a\nx();", "x();")], None),
        ([edit(), ran(GREEN), changed("int a;", "#include <x>\nint a;")], "edited after the last test run"),
        ([edit(), ran(GREEN), changed("x = 1", "    x = 1")], "edited after the last test run"),
        ([edit(), ran(GREEN), patched("-x = 1\n+x = 1\n+# one")], None),
        ([edit(), ran(GREEN), patched("-x = 1\n+x = 2\n+# two")], "edited after the last test run"),
        ([edit(), ran(GREEN), REJECTED], None),
        ([edit(), ran(GREEN), bash("python3 -m pytest > /tmp/out.txt")], None),
        ([edit(), ran(GREEN), edit(), WORKED], None),  # a program shows that it works
        # the last program failed
        ([edit(), BROKE], "last program that was run after the edits"),
        ([edit(), BROKE, WORKED], None),
        ([edit(), ran(GREEN), BROKE], None),  # tests say more than a program
        ([BROKE], None),
        # nothing was run
        ([edit()], "neither a test nor a program was run"),
        ([edit(), LOOKED], "neither a test nor a program was run"),
        ([edit("/w/README.md")], None),
        ([REJECTED], None),
        # no work
        ([LOOKED], None),
        ([], None),
    ],
)
def test_what_is_told_at_a_stop(events: list[dict[str, Any]], told: str | None, tmp_path: Path) -> None:
    *before, last = answers(tmp_path, policy(classifier=ALL), PROMPT, *events, STOP)
    assert not any(before)
    if told is None:
        assert last is None
    else:
        assert last["decision"] == "block"
        assert told in last["reason"]
        assert last["reason"].startswith('<pointsman source="guidance">')


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([edit(), ran(RED)], True),
        ([edit(), ran(GREEN), edit()], False),
        ([edit()], False),
        ([edit(), BROKE], False),
    ],
)
def test_by_default_only_failed_tests_are_evidence(
    events: list[dict[str, Any]], told: bool, tmp_path: Path
) -> None:
    assert bool(answers(tmp_path, policy(), PROMPT, *events, STOP)[-1]) is told


def test_a_reason_is_told_once_and_there_is_a_limit(tmp_path: Path) -> None:
    turns = [
        ([edit(), ran(RED)], True),
        ([edit(), ran(RED)], False),  # the same test fails: told before
        ([edit(), ran(RED_OTHER)], True),
        ([edit(), ran(GREEN), edit()], True),
        ([edit(), ran(RED_BOTH)], False),  # the limit of three in a conversation
    ]
    events = [[PROMPT, *calls, STOP] for calls, _ in turns]
    found = answers(tmp_path, policy(classifier=BOTH), *itertools.chain(*events))
    ends = list(itertools.accumulate(len(each) for each in events))
    assert [bool(found[end - 1]) for end in ends] == [told for _, told in turns]


def test_an_answer_without_calls_is_let_end(tmp_path: Path) -> None:
    """Only what an agent does for a message is judged at the end of that message."""
    quiet = policy(max_fires_per_session=9)
    found = answers(tmp_path, quiet, PROMPT, edit(), PROMPT, STOP, PROMPT, LOOKED, STOP)
    assert not any(found)


def test_the_control_group_is_recorded_and_not_told(tmp_path: Path) -> None:
    from msgspec.structs import replace

    held = replace(policy(), control=1.0)
    assert not any(answers(tmp_path, held, PROMPT, edit(), ran(RED), STOP))


CONFIGURED = """
[upstreams.a]
base_url = "http://127.0.0.1:9/v1"
api_key = "${NOT_SET_ANYWHERE}"
[ledger]
path = "LEDGER"
[guidance]
mode = "on"
[[guidance.providers]]
provider = "done_gate"
"""


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_from_the_settings_to_an_agent_that_ends(agent: str, tmp_path: Path) -> None:
    """The journey: installed by its file, told once, let end the second time, explained and replayed."""
    file, ledger = tmp_path / "pointsman.toml", tmp_path / "ledger.sqlite"
    file.write_text(CONFIGURED.replace("LEDGER", str(ledger)))
    run = CliRunner()
    installed = run.invoke(app, ["hook", agent, "install", "--config", str(file)])
    assert "Stop" in json.loads(installed.stdout)["hooks"]

    def sent(event: dict[str, Any]) -> str:
        arguments = ["hook", agent, "--state", str(tmp_path / "state.sqlite"), "--config", str(file)]
        result = run.invoke(app, arguments, input=json.dumps({"session_id": "s", "cwd": "/w", **event}))
        assert result.exit_code == 0, result.output
        return result.stdout

    tested: dict[str, Any] = {
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "pytest -q | tail -5"},
        "tool_response": QUIET_RED,
    }
    edited = {
        "hook_event_name": "PostToolUse",
        "tool_name": "apply_patch",
        "tool_input": {"command": "*** Begin Patch\n*** Update File: a.py\n*** End Patch"},
        "tool_response": "Success. Updated the following files:\nM a.py",
    }
    assert [sent(event) for event in (PROMPT, edited, tested)] == ["", "", ""]
    answer = json.loads(sent(STOP))
    assert answer["decision"] == "block"
    assert "The last test run of this task failed" in answer["reason"]
    assert sent(STOP | {"stop_hook_active": True}) == ""
    assert sent(STOP) == ""  # the same reason is not given twice
    shown = run.invoke(app, ["decisions", "list", "--ledger", str(ledger), "--json"])
    assert shown.stdout.count('"code":"guidance.done_gate","detail":"the last test run failed"') == 1
    replayed = run.invoke(app, ["replay", str(ledger), "--policy", str(file), "--json"])
    assert replayed.exit_code == 0, replayed.output
    *rows, summary = map(json.loads, replayed.stdout.splitlines())
    assert rows
    assert not any(row["changed"] for row in rows), summary


def claude_log(home: Path, last: str, *, failed: bool) -> Path:
    log = ClaudeSession(home)
    log.says("Fix the stock.")
    log.calls("m1", "Edit", "updated", file_path="/w/stock.py")
    log.calls("m2", "Bash", last, error=failed, command="python3 -m unittest")
    log.answers("m3", {"type": "text", "text": "Done."}, stop="end_turn")
    return log.file


def codex_log(home: Path, last: str, *, failed: bool) -> Path:
    log = CodexSession(home)
    log.says("Fix the stock.")
    patch = "*** Begin Patch\n*** Update File: stock.py\n*** End Patch"
    log.line("response_item", type="custom_tool_call", call_id="c1", name="apply_patch", input=patch)
    log.line("response_item", type="custom_tool_call_output", call_id="c1", output="Success.")
    command = json.dumps({"cmd": "python3 -m unittest"})
    log.line("response_item", type="function_call", call_id="c2", name="exec_command", arguments=command)
    output = f"Process exited with code {int(failed)}\nOutput:\n{last}"
    log.line("response_item", type="function_call_output", call_id="c2", output=output)
    log.count()
    return log.file


@pytest.mark.parametrize(("agent", "write"), [("claude-code", claude_log), ("codex", codex_log)])
@pytest.mark.parametrize(("last", "told"), [(RED, True), (GREEN, False)])
@pytest.mark.parametrize("recorded", [True, False], ids=["with a ledger", "guidance alone"])
def test_a_stop_with_a_transcript_needs_no_other_event(
    agent: str, write: Any, last: str, told: bool, recorded: bool, tmp_path: Path
) -> None:
    """The hook may be installed for the end alone: told once at the stop, let end at the second one."""
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIGURED.replace("LEDGER", str(tmp_path / "ledger.sqlite")))
    stop = STOP | {"session_id": "s", "cwd": "/w", "transcript_path": str(write(tmp_path, last, failed=told))}
    if recorded:
        arguments = ["hook", agent, "--state", str(tmp_path / "state.sqlite"), "--config", str(file)]

        def sent(event: dict[str, Any]) -> Any:
            result = CliRunner().invoke(app, arguments, input=json.dumps(event))
            assert result.exit_code == 0, result.output
            return json.loads(result.stdout) if result.stdout else None
    else:
        state, guide = HookState(tmp_path / "state.sqlite"), Guide(policy())
        kind = ClaudeCodeEvent if agent == "claude-code" else CodexEvent

        def sent(event: dict[str, Any]) -> Any:
            return answer_event(read_event(json.dumps(event).encode(), kind), state, guide)

    first = sent(stop)
    assert bool(first) is told
    if told:
        assert first["decision"] == "block"
        assert "last test run of this task failed" in first["reason"]
    assert sent(stop | {"stop_hook_active": True}) is None
    assert sent(stop) is None
    if recorded:
        ledger = str(tmp_path / "ledger.sqlite")
        replayed = CliRunner().invoke(app, ["replay", ledger, "--policy", str(file), "--json"])
        assert '"changed":true' not in replayed.stdout, replayed.stdout


def test_a_transcript_adds_what_no_event_told_and_nothing_twice(tmp_path: Path) -> None:
    log = ClaudeSession(tmp_path)
    stop = STOP | {"transcript_path": str(log.file)}
    log.says("Fix the stock.")
    log.calls("m1", "Edit", "updated", file_path="/w/stock.py")
    log.calls("m2", "Bash", RED, error=True, command="python3 -m pytest tests")
    reported = [PROMPT, edit(), ran(RED), stop]  # the log holds no more than the events
    assert answers(tmp_path, policy(classifier=BOTH), *reported)[-1]["decision"] == "block"
    log.calls("m3", "Edit", "updated", file_path="/w/stock.py")
    log.calls("m4", "Bash", GREEN, command="python3 -m pytest tests")
    assert answers(tmp_path, policy(classifier=BOTH), stop) == [None]
    log.calls("m5", "Edit", "updated", file_path="/w/stock.py")
    (answer,) = answers(tmp_path, policy(classifier=BOTH), stop)
    assert "edited after the last test run" in answer["reason"]


@pytest.mark.parametrize("named", ["/no/such/log.jsonl", ""])
def test_a_missing_transcript_costs_nothing(named: str, tmp_path: Path) -> None:
    stop = STOP | {"transcript_path": named}
    assert answers(tmp_path, policy(), PROMPT, edit(), ran(RED), stop)[-1]["decision"] == "block"


def test_a_subagents_own_log_is_read_and_its_calls_are_not_its_parents(tmp_path: Path) -> None:
    log = ClaudeSession(tmp_path)
    log.says("Fix the stock.")
    log.common = {"isSidechain": True, "agentId": "a1"}
    log.says("Edit it.")
    log.calls("m1", "Edit", "updated", file_path="/w/stock.py")
    log.calls("m2", "Bash", RED, error=True, command="python3 -m pytest tests")
    parent = STOP | {"transcript_path": str(log.file)}
    child = parent | {"hook_event_name": "SubagentStop", "agent_id": "a1"}
    assert answers(tmp_path, policy(), parent) == [None]
    assert answers(tmp_path, policy(), child)[0]["decision"] == "block"
    own = child | {"transcript_path": "", "agent_transcript_path": str(log.file), "agent_id": "a2"}
    assert answers(tmp_path, policy(), own)[0]["decision"] == "block"


def test_an_agent_that_ends_is_not_told_that_it_was_stuck(tmp_path: Path) -> None:
    """What only the log tells is read for its end, and no hint of the ladder is given for it."""
    log = ClaudeSession(tmp_path)
    log.says("Show the file.")
    for number in range(4):
        log.calls(f"m{number}", "Bash", "Exit code 1\nno such file", error=True, command=f"cat {number}")
    gate = ProviderSpec(provider="done_gate")
    both = GuidancePolicy(mode=Mode.ON, providers=(gate,))
    assert answers(tmp_path, both, STOP | {"transcript_path": str(log.file)}) == [None]


def test_off_means_nothing_is_read_and_no_event_is_installed() -> None:
    plain = GuidancePolicy(mode=Mode.ON)
    assert not plain.trajectory.actions
    installed = settings("x", plain)["hooks"]
    assert isinstance(installed, dict)
    assert "Stop" not in installed
    assert policy().trajectory.actions


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"classifier": "unfinished", "text": "Go on."}, 'the classifier "unfinished" needs the point done'),
        (
            {"provider": "done_gate", "classifier": {"name": "unfinished", "evidence": ["tests"]}},
            '"evidence" of classifier "unfinished" must be',
        ),
    ],
)
def test_a_wrong_gate_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ProviderSpec(**given)
    assert message in refused.value.message


def test_a_text_of_ones_own_at_the_same_moment(tmp_path: Path) -> None:
    spec = ProviderSpec(classifier="unfinished", text="Not yet.", point=DecisionPoint.DONE)
    own = GuidancePolicy(mode=Mode.ON, default_providers=False, providers=(spec,))
    found = answers(tmp_path, own, PROMPT, edit(), ran(RED), STOP)[-1]
    assert "Not yet." in json.dumps(found)
