"""Sessions of coding agents, read through the command."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePath
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.audit.sources.base import Home
from pointsman.audit.sources.google_style import GeminiCli
from pointsman.cli import app
from support.agent_logs import ClaudeSession, CodexSession

SHARED = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[3] / "shared"))
DATA = SHARED / "data" / "agent_logs"


def audit(home: Path, *more: str) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--json", *more])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def only(home: Path) -> dict[str, Any]:
    (session,) = audit(home)["sessions"]
    found: dict[str, Any] = session
    return found


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data or POINTSMAN_SHARED")
def test_sessions_of_the_real_clients_are_counted_as_the_upstream_counted_them() -> None:
    truth = json.loads((DATA / "truth.json").read_text())["sessions"]
    found = {each["id"]: each for each in audit(DATA / "home")["sessions"]}
    same = (
        "client",
        "project",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "tool_calls",
        "stuck",
        "solved",
    )
    assert len(found) == len(truth)
    for real in truth:
        read = found[real["session"]]
        assert {name: read[name] for name in same} == {name: real[name] for name in same}
        assert read["requests"] == real["model_requests"] - real["requests_by_kind"]["side"]
        assert read["failed_calls"] == real["failed_tool_calls"]
        assert read["models"].keys() == real["models"].keys()
        assert read["output_tokens_at_most"] >= real["output_tokens"]


def test_lines_of_one_answer_are_one_request(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    call = {"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "a.py"}}
    session.answers("m1", {"type": "text", "text": "I read it."}, call)
    session.result("c1", "x = 1")
    session.answers("m2", stop="end_turn")
    found = only(tmp_path)
    assert (found["requests"], found["tool_calls"], found["failed_calls"]) == (2, 1, 0)
    assert (found["input_tokens"], found["cached_tokens"], found["output_tokens"]) == (2_020, 2_000, 40)
    assert found["output_tokens_at_most"] == 40


def test_output_that_was_counted_before_the_answer_ended_has_a_bound(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Explain it.")
    thought = {"type": "thinking", "thinking": "", "signature": "A" * 4_000}
    session.answers("m1", thought, {"type": "text", "text": "é" * 500}, usage={"output_tokens": 1}, stop=None)
    found = only(tmp_path)
    assert found["output_tokens"] == 1
    assert 4_000 <= found["output_tokens_at_most"] <= 4_200  # 3,000 bytes of thinking, 1,000 of text
    assert found["uncertain_requests"] == 1


def test_a_resumed_session_repeats_requests_that_count_once(tmp_path: Path) -> None:
    first = ClaudeSession(tmp_path, "s1")
    first.says("Fix it.")
    first.answers("m1", stop="end_turn")
    second = ClaudeSession(tmp_path, "s2")
    second.file.write_text(first.file.read_text().replace('"sessionId": "s1"', '"sessionId": "s2"'))
    second.says("And the other.")
    second.answers("m2", stop="end_turn")
    found = audit(tmp_path)
    assert sorted((each["id"], each["requests"]) for each in found["sessions"]) == [("s1", 1), ("s2", 1)]
    assert found["requests_copied"] == 1


@pytest.mark.parametrize("file", ["s1/subagents/agent-a1.jsonl", "agent-a1.jsonl"])
def test_a_sub_agent_is_part_of_its_session(tmp_path: Path, file: str) -> None:
    main = ClaudeSession(tmp_path)
    main.says("Look at both.")
    main.answers("m1", {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "Look."}})
    sub = ClaudeSession(tmp_path, file=file)
    sub.common = {"isSidechain": True, "agentId": "a1"}
    sub.says("Look.")
    sub.answers("m2", model="claude-haiku-4-5")
    main.result("t1", "It is fine.")
    main.answers("m3", stop="end_turn")
    found = only(tmp_path)
    assert (found["requests"], found["sub_agents"]) == (3, 1)
    assert {name: each["requests"] for name, each in found["models"].items()} == {
        "claude-sonnet-4-5": 2,
        "claude-haiku-4-5": 1,
    }


def test_what_no_model_was_asked_for_is_no_request(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    session.answers("m1", model="<synthetic>")
    session.answers("m2", isApiErrorMessage=True)
    session.line(type="summary", summary="A title", leafUuid="x")
    session.answers("m3", stop="end_turn")
    assert only(tmp_path)["requests"] == 1


def test_a_compaction_is_named_and_not_guessed(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    session.answers("m1", stop="end_turn")
    session.line(type="system", subtype="compact_boundary", content="Conversation compacted")
    session.says("This session is being continued.", isCompactSummary=True)
    session.answers("m2", stop="end_turn")
    found = only(tmp_path)
    assert found["requests"] == 2
    assert found["notes"] == ["1 compactions: the client does not log the request that summarises"]


def test_what_an_advisor_was_asked_is_a_request_of_its_own(tmp_path: Path) -> None:
    """The counts of the message are without its tokens, which are repeated in each of its lines."""
    counts = {"input_tokens": 9_000, "output_tokens": 700, "cache_read_input_tokens": 1_000}
    advice = counts | {"type": "advisor_message", "model": "claude-opus-4-8", "cache_creation": None}
    first = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 900}
    own = first | {"type": "message"}
    asked = first | {"output_tokens": 40, "iterations": [own, advice, own]}  # earlier: the first one's input
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    blocks = [{"type": "text", "text": "Let me ask."}, {"type": "text", "text": "Done."}]
    session.answers("m1", *blocks, usage=asked, stop="end_turn")
    session.answers("m2", usage=first | {"iterations": [own]}, stop="end_turn")
    found = audit(tmp_path)
    by = {each["name"]: each for each in found["by_model"]}
    assert {name: each["requests"] for name, each in by.items()} == {
        "claude-sonnet-4-5": 2,
        "claude-opus-4-8": 1,
    }
    assert by["claude-opus-4-8"]["input_tokens"] == 10_000
    assert by["claude-opus-4-8"]["spent"] == pytest.approx(9_000 * 5e-6 + 1_000 * 0.5e-6 + 700 * 25e-6)
    mine = by["claude-sonnet-4-5"]
    assert (mine["input_tokens"], mine["cached_tokens"], mine["output_tokens"]) == (3 * 910, 3 * 900, 60)


def test_a_copy_of_an_answer_that_was_cut_short_takes_nothing_from_it(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    session.answers("m1", usage={"output_tokens": 500}, stop="end_turn")
    agent = ClaudeSession(tmp_path, file="s1/subagents/agent-a1.jsonl")
    agent.name = "s1-a1"
    agent.answers("m1", usage={"output_tokens": 1}, stop=None, sessionId="s1")
    found = only(tmp_path)
    assert (found["output_tokens"], found["uncertain_requests"]) == (500, 0)


def test_cumulative_counts_of_codex_repeat(tmp_path: Path) -> None:
    session = CodexSession(tmp_path)
    session.says("Fix it.")
    session.count()
    session.repeat()
    session.count(2_000, 1_000, 30)
    session.repeat()
    found = only(tmp_path)
    assert (found["requests"], found["input_tokens"], found["cached_tokens"]) == (2, 3_000, 1_900)
    assert (found["output_tokens"], found["output_tokens_at_most"]) == (40, 40)


def test_records_of_codex_go_before_cumulative_counts(tmp_path: Path) -> None:
    session = CodexSession(tmp_path)
    session.says("Fix it.")
    session.count(record="r1")
    session.count(record="r2")
    assert only(tmp_path)["requests"] == 2


def test_a_thread_of_a_sub_agent_is_part_of_its_session_in_codex(tmp_path: Path) -> None:
    session = CodexSession(tmp_path, "t1")
    session.says("Fix it.")
    session.count(record="r1")
    CodexSession(tmp_path, "t2", session_id="t1").count(record="r2")
    found = only(tmp_path)
    assert (found["id"], found["requests"], found["sub_agents"]) == ("t1", 2, 1)


def total(home: Path) -> tuple[int, int]:
    found = audit(home)["total"]
    return found["requests"], found["input_tokens"]


def parent(home: Path, **about: Any) -> CodexSession:
    session = CodexSession(home, "t1", **about)
    session.says("Fix it.")
    for number in range(3):
        session.count(1_000 + number)
    assert total(home) == (3, 3_003)
    return session


@pytest.mark.parametrize("named", ["forked_from_id", "parent_thread_id", "source"])
@pytest.mark.parametrize("time", [5.05, None], ids=["new times", "old times"])
def test_what_a_thread_of_codex_repeats_of_its_parent_counts_once(
    tmp_path: Path, named: str, time: float | None
) -> None:
    first = parent(tmp_path)
    by = {"subagent": {"thread_spawn": {"parent_thread_id": "t1"}}} if named == "source" else "t1"
    fork = CodexSession(tmp_path, "t2", after=49, **{named: by})
    fork.begins_as(first, time=time)
    assert total(tmp_path) == (3, 3_003)  # nothing was asked yet
    fork.says("Now the other one.")
    fork.count(5_000)
    again = CodexSession(tmp_path, "t3", after=99, **{named: "t2" if by == "t1" else by})
    again.begins_as(fork, time=time and 10.05)
    again.says("And the third.")
    again.count(6_000)
    assert total(tmp_path) == (5, 14_003)


def test_a_copy_of_codex_that_took_long_counts_once(tmp_path: Path) -> None:
    first = parent(tmp_path)
    fork = CodexSession(tmp_path, "t2", after=49, forked_from_id="t1")
    fork.begins_as(first, time=5.05)
    lines = fork.file.read_text().splitlines()
    late = [*lines[:-1], lines[-1].replace("10:05:03", "10:05:09")]
    fork.file.write_text("".join(f"{each}\n" for each in late))
    assert total(tmp_path) == (3, 3_003)


def test_counts_of_codex_that_go_on_from_those_of_the_parent_are_no_request(tmp_path: Path) -> None:
    fork = CodexSession(tmp_path, "t2", forked_from_id="t1")
    fork.total = {"input_tokens": 3_000_000_000, "cached_input_tokens": 0, "output_tokens": 0}
    fork.says("Look at it.")
    fork.count(9_000)
    fork.count(9_500)
    assert total(tmp_path) == (2, 18_500)


def test_a_sub_agent_of_codex_repeats_counts_without_records(tmp_path: Path) -> None:
    first = CodexSession(tmp_path, "t1")
    first.says("Fix it.")
    first.count(record="r1")
    fork = CodexSession(tmp_path, "t2", after=49, session_id="t1", parent_thread_id="t1")
    fork.begins_as(first, records=False)
    fork.says("Look at it.")
    fork.count(2_000, record="r2")
    assert total(tmp_path) == (2, 3_000)


def test_logs_that_codex_has_compressed_are_named(tmp_path: Path) -> None:
    """They were left out without a word."""
    session = CodexSession(tmp_path)
    session.says("Fix it.")
    session.count()
    for name in ("t1", "t2"):  # the first one is being unpacked: its plain file is there too
        (session.file.parent / f"rollout-2026-11-20T10-00-00-{name}.jsonl.zst").write_bytes(b"(\xb5/\xfd")
    found = audit(tmp_path)
    assert found["total"]["requests"] == 1
    assert "1 log that Codex has compressed" in found["notes"][0]


def test_sub_agents_of_codex_are_part_of_their_session_before_it_had_an_id(tmp_path: Path) -> None:
    for name, starter in (("t1", None), ("t2", "t1"), ("t3", "t2")):
        spawned = {"subagent": {"thread_spawn": {"parent_thread_id": starter}}} if starter else "cli"
        thread = CodexSession(tmp_path, name, session_id=None, source=spawned)
        thread.says("Look at it.")
        thread.count()
    CodexSession(tmp_path, "t4", session_id=None, source={"subagent": "review"}).count(5_000)
    found = {each["id"]: each for each in audit(tmp_path)["sessions"]}
    assert {name: (each["requests"], each["sub_agents"]) for name, each in found.items()} == {
        "t1": (3, 2),
        "t4": (1, 0),
    }


def test_sub_agents_of_codex_with_equal_first_counts_are_several(tmp_path: Path) -> None:
    for name in ("t2", "t3"):
        agent = CodexSession(tmp_path, name, session_id="t1", parent_thread_id="t1")
        agent.says("Look at it.")
        agent.count()
    assert total(tmp_path) == (2, 2_000)


def test_a_session_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    session.answers("m1", stop="end_turn")
    with session.file.open("a") as out:
        out.write('{"type": "assistant", "mess')
    found = only(tmp_path)
    assert found["requests"] == 1
    assert "s1.jsonl:3: the file ends in the middle of it" in found["notes"][0]


def test_a_home_without_logs_says_what_was_looked_for(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["audit", "--home", str(tmp_path)])
    assert ran.exit_code != 0
    assert str(tmp_path / ".claude/projects") in str(ran.exception)
    assert str(tmp_path / ".codex/sessions") in str(ran.exception)


@pytest.mark.parametrize(
    ("version", "is_named"), [("2.1.330", False), ("2.1.200", False), ("3.0.1", True), ("1.0.44", True)]
)
def test_a_version_that_was_not_tested_is_named(tmp_path: Path, version: str, is_named: bool) -> None:
    session = ClaudeSession(tmp_path)
    session.common |= {"version": version}
    session.says("Fix it.")
    session.answers("m1", stop="end_turn")
    found = audit(tmp_path)
    named = [note for note in found["notes"] if note.startswith(f"claude-code {version} was not tested")]
    assert bool(named) is is_named
    assert found["total"]["requests"] == 1


def test_lines_of_another_shape_are_left_out_and_named(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    session.line(type="assistant", message="a text", usage=[1])
    session.answers("m1", stop="end_turn")
    found = audit(tmp_path)
    assert found["total"]["requests"] == 1
    assert "s1.jsonl:2: Expected" in found["notes"][0]


def test_a_log_without_an_answer_is_counted(tmp_path: Path) -> None:
    ClaudeSession(tmp_path).says("Fix it.")
    found = audit(tmp_path)
    assert (found["sessions"], found["logs_without_requests"]) == ([], {"claude-code": 1})


def _gemini(file: Path, session: str, *answers: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, Any]] = [{"sessionId": session, "projectHash": "h", "kind": "main"}]
    lines += [
        {
            "id": id_,
            "timestamp": f"2026-11-20T10:0{number}:00Z",
            "type": "gemini",
            "content": "Done.",
            "tokens": {"input": 1_000, "output": 10, "cached": 0, "thoughts": 0, "tool": 0},
            "model": "gemini-2.5-pro",
        }
        for number, id_ in enumerate(answers)
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_sub_agents_of_gemini_are_part_of_their_session(tmp_path: Path) -> None:
    """Their files have the id of the session that started them as folder, and no prefix."""
    chats = tmp_path / ".gemini/tmp/shop/chats"
    _gemini(chats / "session-2026-11-20T10-00-2b03c9bd.jsonl", "2b03c9bd-e237", "m1", "m2")
    _gemini(chats / "2b03c9bd-e237/a1.jsonl", "a1", "m3")
    _gemini(chats / "2b03c9bd-e237/a2.jsonl", "a2", "m4")
    _gemini(chats / "ffffffff-e237/a3.jsonl", "a3", "m5")  # of a session whose file is gone
    one, other = audit(tmp_path)["sessions"]
    assert (one["id"], one["requests"], one["sub_agents"]) == ("2b03c9bd-e237", 4, 2)
    assert (other["id"], other["requests"], other["sub_agents"]) == ("ffffffff-e237", 1, 1)
    assert one["project"] == other["project"] == "shop"


def test_sub_agents_of_gemini_are_found_in_time_that_grows_with_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every folder was compared with every session: 15 seconds of CPU time with 2,000 of them."""
    chats, sessions = tmp_path / ".gemini/tmp/shop/chats", 100
    for number in range(sessions):
        _gemini(chats / f"session-2026-11-20T10-00-{number:08x}.jsonl", f"{number:08x}-e237")
        _gemini(chats / f"{number:08x}-e237/a1.jsonl", "a1")
    asked = []
    parent = PurePath.__dict__["parent"].fget

    def counted(path: PurePath) -> PurePath:
        asked.append(path)
        found: PurePath = parent(path)
        return found

    monkeypatch.setattr(PurePath, "parent", property(counted))
    logs = list(GeminiCli().find(Home(tmp_path, {})))
    assert {len(log.files) for log in logs} == {2}
    assert len(asked) < 20 * sessions


def test_records_of_codex_without_an_id_are_several(tmp_path: Path) -> None:
    session = CodexSession(tmp_path)
    session.says("Fix it.")
    usage = {"input_tokens": 1_000, "cached_input_tokens": 0, "output_tokens": 10}
    for _ in range(3):
        session.line("token_usage_record", response_id=None, thread_id="t1", usage=usage)
    fork = CodexSession(tmp_path, "t2", forked_from_id="t1")
    fork.begins_as(session)
    fork.says("And the other one.")
    fork.line("token_usage_record", response_id=None, thread_id="t2", usage=usage)
    assert total(tmp_path) == (4, 4_000)


def _waits(session: ClaudeSession, times: int, **answer: Any) -> None:
    for number in range(times):
        call = f"{session.name}-{number}"
        session.calls(call, "Bash", "in progress", answer=answer, command="gh run view 1")


def test_an_agent_whose_last_call_ends_the_loop_is_not_stuck(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Wait for the build.")
    _waits(session, 5)
    session.calls("m-other", "Bash", "completed", command="gh run view 1")
    session.answers("m-end", stop="end_turn")
    found = only(tmp_path)
    assert (found["stuck"], found["solved"], found["solved_by"]) == (False, None, None)


def test_a_stuck_sub_agent_does_not_make_its_session_stuck(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Run the link checker.")
    session.calls("m1", "Bash", "a.py", command="ls")
    agent = ClaudeSession(tmp_path, file="s1/subagents/agent-a1.jsonl")
    agent.common = {"isSidechain": True, "agentId": "a1"}
    agent.name, agent._count = "s1-a1", 5
    _waits(agent, 6, sessionId="s1")
    session._count = 50
    session.answers("m-end", stop="end_turn")
    found = only(tmp_path)
    assert (found["sub_agents"], found["stuck"], found["solved"]) == (1, False, None)


def test_what_stuck_sessions_cost_is_without_those_that_recovered(tmp_path: Path) -> None:
    stuck = ClaudeSession(tmp_path, "s1")
    stuck.says("Run the link checker.")
    _waits(stuck, 5)
    cost = audit(tmp_path)["verdict"]["after_first_sign"]["spent"]
    assert cost > 0
    well = ClaudeSession(tmp_path, "s2")
    well.says("Run the link checker.")
    _waits(well, 9)
    well.calls("m-other", "Bash", "5 passed", command="pytest")
    found = audit(tmp_path)
    assert found["verdict"]["sessions_stuck"] == 1
    assert found["verdict"]["after_first_sign"]["spent"] == cost
    said = CliRunner().invoke(app, ["audit", "--home", str(tmp_path)]).stdout
    assert "In sessions that did not end stuck, requests after a first sign cost $0.0" in said
