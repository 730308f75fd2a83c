"""Writes logs as Claude Code and Codex write them, line by line, into a home directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["ClaudeSession", "CodexSession", "month"]

_DAY = "2026-11-20"


def _time(minute: float, day: str = _DAY) -> str:
    return f"{day}T10:{int(minute):02d}:{int(minute * 60) % 60:02d}.000Z"


class ClaudeSession:
    """One session file of Claude Code."""

    def __init__(
        self,
        home: Path,
        name: str = "s1",
        project: str = "/home/ana/code/shop",
        *,
        file: str = "",
        day: str = _DAY,
    ) -> None:
        folder = home / ".claude/projects" / project.replace("/", "-")
        self.file = folder / (file or f"{name}.jsonl")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.name, self.project = name, project
        self.day = day
        self.common: dict[str, Any] = {"isSidechain": False}
        self._count = 0

    def line(self, **fields: Any) -> None:
        """Write any line."""
        self._count += 1
        whole = {
            "uuid": f"{self.name}-{self._count}",
            "sessionId": self.name,
            "cwd": self.project,
            "version": "2.1.330",
            "timestamp": _time(self._count / 10, self.day),
        }
        with self.file.open("a") as out:
            out.write(json.dumps(whole | self.common | fields) + "\n")

    def says(self, text: str, **fields: Any) -> None:
        """Write what the person says."""
        self.line(type="user", message={"role": "user", "content": text}, **fields)

    def answers(
        self,
        id_: str,
        *blocks: dict[str, Any],
        usage: dict[str, Any] | None = None,
        model: str = "claude-sonnet-4-5",
        stop: str | None = "tool_use",
        **fields: Any,
    ) -> None:
        """Write an answer, one line per block, each with the usage of the whole."""
        counts = {"input_tokens": 10, "cache_read_input_tokens": 1_000, "output_tokens": 20} | (usage or {})
        for block in blocks or ({"type": "text", "text": "Done."},):
            message = {
                "id": id_,
                "role": "assistant",
                "model": model,
                "content": [block],
                "stop_reason": stop,
                "usage": counts,
            }
            self.line(type="assistant", message=message, requestId=f"req_{id_}", **fields)

    def result(self, call: str, text: str, *, error: bool = False, **fields: Any) -> None:
        """Write the result of a tool call."""
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": error}
        self.line(type="user", message={"role": "user", "content": [block]}, **fields)

    def calls(
        self,
        id_: str,
        tool: str,
        result: str | None,
        *,
        error: bool = False,
        answer: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        """Write an answer with one call, and its result; ``answer`` has more for ``answers``."""
        block = {"type": "tool_use", "id": f"call_{id_}", "name": tool, "input": arguments}
        self.answers(id_, block, **(answer or {}))
        if result is not None:
            self.result(f"call_{id_}", result, error=error)


class CodexSession:
    """One rollout file of Codex."""

    def __init__(self, home: Path, name: str = "t1", *, after: int = 0, **meta: Any) -> None:
        folder = home / ".codex/sessions/2026/11/20"
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"rollout-2026-11-20T10-00-00-{name}.jsonl"
        self._count = after
        self.total = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
        known = {"id": name, "session_id": name, "cwd": "/home/ana/code/shop", "cli_version": "0.169.0"}
        self.line("session_meta", **(known | meta))
        self.line("turn_context", model="gpt-5", cwd=known["cwd"])

    def line(self, type_: str, **payload: Any) -> None:
        """Write any line."""
        self._count += 1
        whole = {"timestamp": _time(self._count / 10), "type": type_, "payload": payload}
        with self.file.open("a") as out:
            out.write(json.dumps(whole) + "\n")

    def says(self, text: str) -> None:
        """Write what the person says."""
        self.line(
            "response_item", type="message", role="user", content=[{"type": "input_text", "text": text}]
        )

    def count(self, tokens: int = 1_000, cached: int = 900, output: int = 10, *, record: str = "") -> None:
        """Write the counts of an answer: the cumulative ones, or a record with an id."""
        last = {"input_tokens": tokens, "cached_input_tokens": cached, "output_tokens": output}
        if record:
            self.line("token_usage_record", response_id=record, usage=last)
        self.total = {name: self.total[name] + last[name] for name in last}
        self.repeat(last)

    def begins_as(self, other: CodexSession, *, time: float | None = None, records: bool = True) -> None:
        """Copy the lines of the thread that this one was forked from, by default with their times."""
        for each in map(json.loads, other.file.read_text().splitlines()):
            if time is not None:
                each["timestamp"] = _time(time)
            if records or each["type"] != "token_usage_record":
                with self.file.open("a") as out:
                    out.write(json.dumps(each) + "\n")
        self.total = dict(other.total)

    def repeat(self, last: dict[str, int] | None = None) -> None:
        """Write the cumulative counts once more."""
        info = {"total_token_usage": self.total, "last_token_usage": last or self.total}
        self.line("event_msg", type="token_count", info=info, rate_limits={"plan_type": None})


#: Sessions of a month: day, project, model, calls that work, calls that fail alike at the end.
_MONTH = (
    ("2026-10-23", "shop", "claude-sonnet-4-5", 14, 0),
    ("2026-10-26", "shop", "claude-opus-5-5", 22, 0),
    ("2026-10-27", "billing-service", "claude-sonnet-4-5", 9, 7),
    ("2026-10-30", "shop", "claude-haiku-4-5", 11, 0),
    ("2026-11-03", "billing-service", "claude-opus-5-5", 31, 12),
    ("2026-11-05", "docs", "claude-haiku-4-5", 6, 0),
    ("2026-11-09", "shop", "claude-sonnet-4-5", 18, 0),
    ("2026-11-11", "billing-service", "claude-haiku-4-5", 16, 0),
    ("2026-11-12", "shop", "claude-opus-5-5", 41, 0),
    ("2026-11-16", "infra", "claude-sonnet-4-5", 12, 9),
    ("2026-11-18", "shop", "claude-haiku-4-5", 8, 0),
    ("2026-11-20", "billing-service", "claude-sonnet-4-5", 20, 0),
)


def month(home: Path) -> None:
    """Write a month of sessions, invented: what an audit has something to say about."""
    for number, (day, project, model, good, bad) in enumerate(_MONTH):
        session = ClaudeSession(home, f"session-{number + 1:02d}", f"/home/ana/code/{project}", day=day)
        session.says("Mend the failing tests of the basket.")
        for at in range(good + bad):
            usage = {
                "input_tokens": 900,
                "cache_read_input_tokens": 21_000 + 2_400 * at,
                "cache_creation_input_tokens": 1_500,
                "output_tokens": 420,
            }
            answer = {"model": model, "usage": usage}
            if at < good:
                path = f"/home/ana/code/{project}/part_{at}.py"
                done = "The file was updated."
                session.calls(f"{number}-{at}", "Edit", done, answer=answer, file_path=path)
            else:
                failed = "Exit code 1\nno such file"
                session.calls(
                    f"{number}-{at}", "Bash", failed, error=True, answer=answer, command="make test"
                )
            if at in {good // 3, 2 * good // 3}:
                session.says("Go on.")
        if not bad and number % 3:
            session.calls(
                f"{number}-t", "Bash", "8 passed in 1.2s", answer={"model": model}, command="pytest"
            )
        session.answers(f"{number}-last", model=model, stop="end_turn")
