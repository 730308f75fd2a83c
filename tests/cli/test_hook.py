"""``pointsman hook claude-code``: events in, answers in the hook's own format."""

import json
import shutil
import stat
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.config.applications import load_classes
from pointsman.guidance import Arm, DecisionPoint, GuidancePolicy, Guide, Mode, ProviderSpec
from pointsman.integrations.hooks import (
    ClaudeCodeEvent,
    CodexEvent,
    HookEvent,
    HookState,
    answer_event,
    read_event,
    settings,
)
from support.servers import Asked, ScriptedUpstream, reply


def event(name: str, session: str = "s", **fields: Any) -> dict[str, Any]:
    base = {"session_id": session, "transcript_path": "/t.jsonl", "cwd": "/w", "hook_event_name": name}
    return base | fields


def failure(number: int = 0, error: str = "Exit code 1\nno such file", **fields: Any) -> dict[str, Any]:
    call: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_input": {"command": f"cat {number}"},
        "tool_use_id": f"t{number}",
    }
    return event("PostToolUseFailure", **{**call, "error": error, "is_interrupt": False, **fields})


def success(number: int = 0, response: object = None) -> dict[str, Any]:
    call: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_input": {"command": f"ls {number}"},
        "tool_use_id": f"t{number}",
    }
    return event("PostToolUse", **call, tool_response=response or {"stdout": f"{number}", "stderr": ""})


PROMPT = event("UserPromptSubmit", prompt="try again")


def hook(tmp_path: Path, *arguments: str, data: object, agent: str = "claude-code") -> Result:
    text = data if isinstance(data, str) else json.dumps(data)
    return CliRunner().invoke(
        app, ["hook", agent, "--state", str(tmp_path / "state.sqlite"), *arguments], input=text
    )


def answers(tmp_path: Path, *events: dict[str, Any], policy: GuidancePolicy | None = None) -> list[Any]:
    state = HookState(tmp_path / "sub" / "state.sqlite")
    guide = Guide(policy or GuidancePolicy(mode=Mode.ON))
    return [answer_event(read_event(json.dumps(sent).encode()), state, guide) for sent in events]


def test_the_third_failure_is_answered_once_in_the_hooks_format(tmp_path: Path) -> None:
    results = [hook(tmp_path, data=failure(number)) for number in range(5)]
    assert [result.exit_code for result in results] == [0] * 5
    assert [bool(result.stdout) for result in results] == [False, False, True, False, False]
    answer = json.loads(results[2].stdout)["hookSpecificOutput"]
    assert answer["hookEventName"] == "PostToolUseFailure"
    assert answer["additionalContext"].startswith('<pointsman source="guidance">')
    assert '"no such file"' in answer["additionalContext"]


@pytest.mark.parametrize(
    ("events", "spoke"),
    [
        ([failure(0), failure(1), success(), failure(2)], False),
        ([failure(0), failure(1), PROMPT, failure(2)], False),  # a person spoke
        ([failure(0), failure(1), event("Stop"), failure(2)], True),  # other events say nothing
        ([failure(n, is_interrupt=True) for n in range(4)], False),  # a person's doing
        ([failure(0, session="a"), failure(1, session="b"), failure(2, session="a")], False),
        ([failure(0), failure(1), failure(2, agent_id="sub")], False),  # a subagent is a run of its own
        ([success(1), success(1), success(1)], True),  # the same command, the same output
        ([success(1, "x"), success(1, "y"), success(1, "x")], False),
        ([failure(n, error="API Error: 429 rate limit") for n in range(5)], False),
    ],
)
def test_what_counts_as_stuck(tmp_path: Path, events: list[dict[str, Any]], spoke: bool) -> None:
    assert any(answers(tmp_path, *events)) is spoke


def test_a_success_can_be_answered_too(tmp_path: Path) -> None:
    *_, last = answers(tmp_path, success(1), success(1), success(1))
    assert last["hookSpecificOutput"]["hookEventName"] == "PostToolUse"


def test_a_configured_stop_ends_the_agents_run(tmp_path: Path) -> None:
    policy = GuidancePolicy(mode=Mode.ON, escalate=("stop",))
    *_, last = answers(tmp_path, *(failure(number) for number in range(6)), policy=policy)
    assert last == {"continue": False, "stopReason": "Pointsman: still stuck (6 consecutive errors)"}


def test_a_configured_stop_ends_the_run_of_codex(tmp_path: Path) -> None:
    state, guide = (
        HookState(tmp_path / "state.sqlite"),
        Guide(GuidancePolicy(mode=Mode.ON, escalate=("stop",))),
    )
    events = (success(number, "cat: no such file or directory") for number in range(6))
    said = [answer_event(read_event(json.dumps(each).encode(), CodexEvent), state, guide) for each in events]
    assert said[-1] == {"continue": False, "stopReason": "Pointsman: still stuck (6 consecutive errors)"}


@pytest.mark.parametrize("data", ["", "not json", "[]", '{"hook_event_name": "Stop"}', "[" * 50_000])
def test_what_is_no_event_is_said_and_never_blocks_the_agent(tmp_path: Path, data: str) -> None:
    result = hook(tmp_path, data=data)
    assert (result.exit_code, result.stdout) == (1, "")  # 2 would block
    assert result.stderr.startswith("pointsman: this is not a hook event of Claude Code")


def test_a_state_that_cannot_be_kept_is_said_and_never_blocks_the_agent(tmp_path: Path) -> None:
    (tmp_path / "state.sqlite").write_bytes(b"this is not a database" * 100)
    result = hook(tmp_path, data=failure())
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cannot use" in result.stderr


def test_the_file_holds_no_word_of_an_error_and_is_private(tmp_path: Path) -> None:
    given = answers(
        tmp_path, PROMPT, *(failure(number, "Exit code 1\nCANARY: no such file") for number in range(3))
    )
    assert "CANARY" in str(given[-1])
    [file] = (tmp_path / "sub").iterdir()
    assert b"CANARY" not in file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_hooks_of_parallel_calls_lose_nothing(tmp_path: Path) -> None:
    state, guide = HookState(tmp_path / "state.sqlite"), Guide(GuidancePolicy(mode=Mode.ON))
    events = [read_event(json.dumps(failure(number)).encode()) for number in range(16)]
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda sent: answer_event(sent, state, guide), events))
    assert sum(answer is not None for answer in given) == 2  # the hint, and the consultation
    with state.session("s") as kept:
        assert kept.memory.thread().trajectory.state.tool_call_count == 16


def test_old_sessions_are_forgotten(tmp_path: Path) -> None:
    now = [0.0]
    state = HookState(tmp_path / "state.sqlite", clock=lambda: now[0])
    guide = Guide(GuidancePolicy(mode=Mode.ON))
    answer_event(read_event(json.dumps(failure()).encode()), state, guide)
    now[0] = 15 * 86_400.0
    answer_event(read_event(json.dumps(failure(session="other")).encode()), state, guide)
    with state.session("s") as kept:
        assert kept.memory.thread().trajectory.state.tool_call_count == 0


def test_a_memory_of_another_version_starts_over(tmp_path: Path) -> None:
    state, guide = HookState(tmp_path / "state.sqlite"), Guide(GuidancePolicy(mode=Mode.ON))
    with state._open() as db:
        db.execute("INSERT INTO runs VALUES ('s', 1e12, ?)", (b'{"threads": "many"}',))
    assert answer_event(read_event(json.dumps(failure()).encode()), state, guide) is None


def test_what_came_of_it_is_kept_for_the_report(tmp_path: Path) -> None:
    state = HookState(tmp_path / "state.sqlite")
    for control in (0.0, 1.0):
        guide = Guide(GuidancePolicy(mode=Mode.ON, control=control))
        for number in range(4):
            sent = failure(number, session=f"with {control}")
            answer_event(read_event(json.dumps(sent).encode()), state, guide)
    assert [(row.arm, row.classifier, row.continued) for row in state.followed()] == [
        (Arm.TREATED, "error_streak", True),
        (Arm.CONTROL, "error_streak", True),
    ]


def test_install_prints_settings_for_every_event() -> None:
    result = CliRunner().invoke(app, ["hook", "claude-code", "install"])
    printed = json.loads(result.stdout)
    assert set(printed["hooks"]) == {"PostToolUse", "PostToolUseFailure", "UserPromptSubmit"}
    [entry] = printed["hooks"]["PostToolUse"]
    assert entry["matcher"] == "*"
    assert entry["hooks"][0]["command"].endswith("pointsman hook claude-code"), "by which one removes it"
    assert settings("x")["hooks"]


def test_a_text_response_is_read_as_text() -> None:
    sent = read_event(json.dumps(success(1, "line")).encode())
    assert isinstance(sent, HookEvent)
    assert bytes(sent.tool_response) == b'"line"'


def provider(point: DecisionPoint, **given: Any) -> GuidancePolicy:
    spec = ProviderSpec(
        **{
            "classifier": {"entry_point": "support.own_guidance:Always"},
            "text": "Said.",
            "point": point,
            **given,
        }
    )
    return GuidancePolicy(mode=Mode.ON, default_providers=False, providers=(spec,))


def answered(tmp_path: Path, policy: GuidancePolicy, *events: dict[str, Any]) -> list[Any]:
    state, guide = HookState(tmp_path / "state.sqlite"), Guide(policy, own=load_classes(policy))
    return [answer_event(read_event(json.dumps(sent).encode()), state, guide) for sent in events]


BEFORE = event("PreToolUse", tool_name="Bash", tool_input={"command": "export API_KEY=1"}, tool_use_id="t")
STOP = event("Stop", stop_hook_active=False, last_assistant_message="Done.")


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (DecisionPoint.PRE_RENDER, ["UserPromptSubmit"]),
        (DecisionPoint.PRE_TOOL_EXECUTION, ["PreToolUse"]),
        (DecisionPoint.POST_TOOL_RESULT, ["PostToolUse", "PostToolUseFailure"]),
        (DecisionPoint.PRE_TOOL_SELECTION, ["UserPromptSubmit", "PostToolUse", "PostToolUseFailure"]),
        (DecisionPoint.PRE_RESPONSE, ["Stop"]),
    ],
)
def test_each_decision_point_is_an_event(tmp_path: Path, point: DecisionPoint, expected: list[str]) -> None:
    events = [PROMPT, BEFORE, success(), failure(), STOP]
    found = [answer for answer in answered(tmp_path, provider(point), *events) if answer]
    assert [answer["hookSpecificOutput"]["hookEventName"] for answer in found] == expected
    assert all("Said." in answer["hookSpecificOutput"]["additionalContext"] for answer in found)
    installed = settings("x", provider(point))["hooks"]
    assert isinstance(installed, dict)
    assert set(expected) <= set(installed)


def test_a_stop_that_a_hook_has_answered_already_is_left_alone(tmp_path: Path) -> None:
    policy = provider(DecisionPoint.PRE_RESPONSE)
    assert answered(tmp_path, policy, STOP | {"stop_hook_active": True}) == [None]


def test_the_call_about_to_run_is_judged_before_it_runs(tmp_path: Path) -> None:
    policy = provider(DecisionPoint.PRE_TOOL_EXECUTION, classifier="sensitive_content", cooldown_turns=5)
    plain = BEFORE | {"tool_input": {"command": "ls"}}
    answers = answered(tmp_path, policy, plain, BEFORE, BEFORE)
    assert [bool(answer) for answer in answers] == [False, True, True]
    limited = provider(
        DecisionPoint.PRE_TOOL_EXECUTION, classifier="sensitive_content", max_fires_per_session=1
    )
    assert [bool(each) for each in answered(tmp_path / "b", limited, BEFORE, BEFORE)] == [True, False]


def test_without_providers_the_new_events_open_no_file(tmp_path: Path) -> None:
    policy = GuidancePolicy(mode=Mode.ON)
    assert answered(tmp_path, policy, BEFORE, STOP) == [None, None]
    assert not (tmp_path / "state.sqlite").exists()


CONFIGURED = """
[upstreams.a]
base_url = "http://127.0.0.1:9/v1"
api_key = "${NOT_SET_ANYWHERE}"
[guidance]
mode = "on"
control = 0
[[guidance.providers]]
point = "pre_tool_execution"
classifier = "sensitive_content"
text = "Do not print it."
"""


def test_the_guidance_of_a_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIGURED)
    result = hook(tmp_path, "--config", str(file), data=BEFORE)
    assert "Do not print it." in json.loads(result.stdout)["hookSpecificOutput"]["additionalContext"]
    printed = CliRunner().invoke(app, ["hook", "claude-code", "install", "--config", str(file)])
    hooks = json.loads(printed.stdout)["hooks"]
    assert "PreToolUse" in hooks
    assert str(file) in hooks["PreToolUse"][0]["hooks"][0]["command"]


def test_a_wrong_file_costs_the_hint_and_not_the_agent(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIGURED.replace("sensitive_content", "sensitive_contents"))
    result = hook(tmp_path, "--config", str(file), data=BEFORE)
    assert result.exit_code == 1
    assert 'did you mean "sensitive_content"?' in result.stderr


def test_a_provider_asks_the_model_of_its_file(tmp_path: Path) -> None:
    async def yes(asked: Asked, send: Any) -> None:
        assert json.loads(asked.body)["model"] == "small-1"
        content = {"role": "assistant", "content": "yes"}
        await reply(send, 200, json.dumps({"choices": [{"message": content}]}).encode())

    upstream, file = ScriptedUpstream(yes), tmp_path / "pointsman.toml"
    with upstream.running() as url:
        file.write_text(
            f'[upstreams.a]\nbase_url = "{url}/v1"\nformats = ["chat"]\n'
            '[models]\nsmall = { upstream = "a", id = "small-1" }\n'
            '[guidance]\nmode = "on"\ncontrol = 0\n[[guidance.providers]]\npoint = "post_tool_result"\n'
            'classifier = { name = "llm", model = "small", timeout_ms = 60_000 }\ntext = "Be brief."\n'
        )
        result = hook(tmp_path, "--config", str(file), data=success())
    assert "Be brief." in json.loads(result.stdout)["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize(
    "text", [b"\\ud83d", b"caf\xe9", b"\xed\xa0\xbd"], ids=["half a pair", "Latin-1", "encoded half"]
)
def test_text_that_is_no_text_silences_no_guidance(tmp_path: Path, text: bytes) -> None:
    """Once, such an event was refused, and the call got no guidance."""
    state, guide = HookState(tmp_path / "state.sqlite"), Guide(GuidancePolicy(mode=Mode.ON))
    sent = [json.dumps(failure(number, error="no @")).encode().replace(b"@", text) for number in range(3)]
    answered = [answer_event(read_event(each), state, guide) for each in sent]
    assert [each is not None for each in answered] == [False, False, True]


@pytest.mark.parametrize("agent", ["codex", "opencode"])
@pytest.mark.parametrize(
    ("responses", "spoke"),
    [
        (["cat: no such file or directory"] * 3, True),  # neither tells a failure: the text does
        (["Traceback (most recent call last):\nKeyError: 'a'"] * 3, True),
        (["a", "b", "c"], False),
        (["a", "b", "c", "c"], False),
    ],
)
def test_other_agents_are_told_the_same(
    agent: str, responses: list[str], spoke: bool, tmp_path: Path
) -> None:
    call: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "cat missing.txt"}, "turn_id": "t"}
    said = [
        hook(tmp_path, data=event("PostToolUse", **call, tool_response=response), agent=agent)
        for response in responses
    ]
    assert [result.exit_code for result in said] == [0] * len(responses), said[0].stderr
    texts = [json.loads(result.stdout)["hookSpecificOutput"] for result in said if result.stdout]
    assert bool(texts) is spoke
    assert all(text["hookEventName"] == "PostToolUse" for text in texts)
    assert all(text["additionalContext"].startswith('<pointsman source="guidance">') for text in texts)


def test_a_failure_of_a_command_in_opencode_has_its_own_event(tmp_path: Path) -> None:
    said = [hook(tmp_path, data=failure(number), agent="opencode").stdout for number in range(4)]
    assert [bool(text) for text in said] == [False, False, True, False]


def test_codex_goes_on_for_a_reason(tmp_path: Path) -> None:
    """Its answer to a stop has no place for context, by its schema ``stop.command.output``."""
    policy = provider(DecisionPoint.PRE_RESPONSE)
    state, guide = HookState(tmp_path / "state.sqlite"), Guide(policy, own=load_classes(policy))
    said = answer_event(read_event(json.dumps(STOP).encode(), CodexEvent), state, guide)
    assert said == {"decision": "block", "reason": '<pointsman source="guidance">\nSaid.\n</pointsman>'}


def test_the_settings_of_codex_name_its_events() -> None:
    printed = json.loads(CliRunner().invoke(app, ["hook", "codex", "install"]).stdout)
    assert set(printed["hooks"]) == {"PostToolUse", "UserPromptSubmit"}
    [entry] = printed["hooks"]["PostToolUse"]
    assert entry["hooks"][0]["command"].endswith("hook codex")


def test_the_plugin_of_opencode_calls_the_command(tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text(CONFIGURED)
    plain = CliRunner().invoke(app, ["hook", "opencode", "install"]).stdout
    assert '"hook","opencode"]' in plain
    named = CliRunner().invoke(app, ["hook", "opencode", "install", "--config", str(config)]).stdout
    assert f'"hook","opencode","--config","{config}"]' in named
    assert named.replace(f',"--config","{config}"', "") == plain


PLUGIN = Path(__file__).parents[2] / "integrations/claude_code"


def test_the_plugin_of_claude_code_listens_to_the_events_of_the_hook() -> None:
    hooks = json.loads((PLUGIN / "hooks/hooks.json").read_text())["hooks"]
    assert set(hooks) == {"SessionStart", *ClaudeCodeEvent.events}
    commands = {hook["command"] for entries in hooks.values() for entry in entries for hook in entry["hooks"]}
    assert {command.split(maxsplit=1)[0] for command in commands} == {
        '"${CLAUDE_PLUGIN_ROOT}/hooks/pointsman.sh"'
    }


def test_the_plugin_has_the_version_of_the_project() -> None:
    plugin = json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())
    market = json.loads((PLUGIN.parents[1] / ".claude-plugin/marketplace.json").read_text())
    project = tomllib.loads((PLUGIN.parents[1] / "pyproject.toml").read_text())["project"]
    assert plugin["version"] == project["version"]
    assert [(each["name"], each["source"]) for each in market["plugins"]] == [
        (plugin["name"], f"./{PLUGIN.relative_to(PLUGIN.parents[1])}")
    ]


@pytest.mark.parametrize(("argument", "said"), [("start", "not on PATH"), ("", "")])
def test_without_the_command_the_plugin_says_so_once(argument: str, said: str, tmp_path: Path) -> None:
    script = [shutil.which("sh") or "sh", str(PLUGIN / "hooks/pointsman.sh"), *filter(None, [argument])]
    done = subprocess.run(
        script,
        input=json.dumps(PROMPT),
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert (said in json.loads(done.stdout)["systemMessage"]) if said else not done.stdout
