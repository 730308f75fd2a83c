"""What a log itself proves of its turns: tests passed or failed, programs that ran, commits, corrections.

A *turn* is one message of the person and all that follows it. Nothing is inferred from what the model says of
its own work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pointsman.audit.session import Request, Session, ToolUse
from pointsman.trajectory import CallOutcome, outcome_of

__all__ = [
    "Action",
    "TurnOutcome",
    "action_of",
    "call_outcome",
    "command_of",
    "failed_tests",
    "turn_outcomes",
]


class Action(StrEnum):
    """What a call does, as far as outcomes are concerned."""

    EDIT = "edit"
    TEST = "test"  # a test runner
    RUN = "run"  # another program, which shows whether something works
    COMMIT = "commit"
    OTHER = "other"


_EDITORS: Final = frozenset(
    {"edit", "multiedit", "write", "notebookedit", "apply_patch", "patch", "write_file", "edit_file"}
    | {"replace", "create_file", "str_replace", "str_replace_editor", "str_replace_based_edit_tool"}
    | {"insert", "search_replace"}
)
_SHELLS: Final = frozenset(
    {"bash", "shell", "exec_command", "run_shell_command", "local_shell", "execute_command", "terminal"}
    | {"run_command", "run_terminal_cmd"}
)
_EDITS: Final = re.compile(
    r"\*\*\* Begin Patch|\bsed\s+(?:-\w+\s+)*-i|\bgit apply\b|\bpatch\s+-p\d"
    r"|(?<![0-9&>])>>?\s*(?!/dev/)[\w./~-]+\.\w+"
)
_TESTS: Final = re.compile(
    r"""\b(?:
        pytest | py\.test | unittest | tox | nox | jest | vitest | mocha | ava | rspec | phpunit | ctest
      | nosetests | playwright\stest | cypress\srun | manage\.py\stest | npm\s+t
      | (?:npm|pnpm|yarn|bun|deno|go|cargo|dotnet|mix|swift|mvnw?|gradlew?|sbt|flutter|rake|zig\sbuild)
        \s+(?:[\w:-]+\s+){0,2}?test
      | make\s+(?:[\w-]+\s+)*(?:test|check)
    )\b
    | \bnode\s+--test\b
    | (?:^|[\s/])run[-_]?tests?\b
    """,
    re.VERBOSE,
)
_RUNS: Final = re.compile(
    r"""(?:^|[;&|]\s*|\s)
    (?:python[\d.]*|node|ruby|php|perl|deno|bun|java|go\srun|cargo\srun|npx|tsc|make|npm\srun|\./\S+)
    (?:\s|$)""",
    re.VERBOSE,
)
#: What separates the commands of one line, and commands that name a test runner without running it.
_PARTS: Final = re.compile(r"[;&|\n]+")
_READERS: Final = re.compile(
    r"\s*(?:cat|ls|grep|rg|head|tail|less|find|echo|git|which|cd|rm|mkdir|touch|sed|wc"
    r"|(?:python[\d.]*\s+-m\s+)?pip[\d.]*|(?:npm|pnpm|yarn|uv)\s+(?:install|add|i))\s"
)
_COMMITS: Final = re.compile(r"\bgit\s+(?:-\S+\s+\S+\s+)*commit\b")
_COMMAND_KEYS: Final = ("command", "cmd", "script")
#: Names of failed tests in the output of unittest, pytest, go, cargo and TAP.
_FAILED: Final = re.compile(
    r"^(?:FAIL|ERROR): (\S+)|^(?:FAILED|ERROR) (\S+::\S+)|^\s*--- FAIL: (\S+)|^test (\S+) \.\.\. FAILED"
    r"|^\s*not ok \d+ -? ?(.+)$|^\s*[✕✖×] (.+?)(?: \(\d.*)?$",
    re.MULTILINE,
)
#: How a person begins who was not content.
_CORRECTION: Final = re.compile(
    r"""(?:
        no\b(?!\s+(?:problem|worries)) | nope\b | wrong\b | undo\b | revert\b | not\swhat\si
      | that(?:'s|\sis)(?:\sstill)?\s(?:not|wrong) | you\s(?:broke|forgot|missed)
      | (?:it\s|this\s|that\s)?(?:still\s)?(?:does\s?n[o']t|is\s?n[o']t)\swork
    )""",
    re.IGNORECASE | re.VERBOSE,
)


class TurnOutcome(msgspec.Struct, frozen=True, gc=False):
    """What became of one turn."""

    first: int  # index of its first request in the session
    end: int  # index after its last
    solved: bool | None  # None: the log does not prove it
    by: str  # what proves it: "tests", "run", "stuck", "correction"; "" nothing
    edits: int = 0
    edits_after_green: int = 0  # edits after the last test run that passed; 0 where none passed
    tests_failing: bool = False  # the last test run failed
    committed: bool = False


def command_of(call: ToolUse) -> str:
    """The command line of a shell call; "" for other tools."""
    name = call.name.lower().rpartition(".")[2]
    if name not in _SHELLS:
        return ""
    try:
        values = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return call.arguments  # cut, or plain text
    if not isinstance(values, dict):
        return call.arguments
    for key in _COMMAND_KEYS:
        value = values.get(key)
        if value:
            return " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return ""


def action_of(call: ToolUse) -> Action:
    """What a call does."""
    if call.name.lower().rpartition("__")[2] in _EDITORS:
        return Action.EDIT
    command = command_of(call)
    if not command:
        return Action.OTHER
    parts = [part for part in _PARTS.split(command) if not _READERS.match(part)]
    if any(_TESTS.search(part) for part in parts):
        return Action.TEST
    if _EDITS.search(command):
        return Action.EDIT
    if _COMMITS.search(command):
        return Action.COMMIT
    return Action.RUN if _RUNS.search(command) else Action.OTHER


def call_outcome(call: ToolUse) -> CallOutcome:
    """Whether a call failed, and whose failure it is. A call without a result failed nothing."""
    return CallOutcome.OK if call.result is None else outcome_of(call.result, call.is_error)


def failed_tests(result: str) -> frozenset[str]:
    """Names of the tests that failed, as test runners print them."""
    return frozenset(next(filter(None, found)).strip() for found in _FAILED.findall(result))


def turn_outcomes(session: Session, stuck_at: frozenset[int] = frozenset()) -> tuple[TurnOutcome, ...]:
    """Judge every turn of the session's own agent.

    Args:
        session: What was read.
        stuck_at: Indices of the requests after which a detector found the agent stuck.
    """
    turns = list(_turns(session.requests))
    failing = _Failing()
    judged = []
    for first, end in turns:
        corrected = end < len(session.requests) and _is_correction(session.requests[end].prompt)
        judged.append(_judge(session.requests, first, end, failing, stuck_at, corrected=corrected))
    return tuple(judged)


def _turns(requests: Sequence[Request]) -> Iterator[tuple[int, int]]:
    starts = [n for n, each in enumerate(requests) if each.prompt is not None and not each.agent]
    if not requests:
        return
    if not starts or starts[0] > 0:
        starts = [0, *starts]
    yield from zip(starts, [*starts[1:], len(requests)], strict=True)


def _is_correction(prompt: str | None) -> bool:
    return prompt is not None and _CORRECTION.match(prompt.lstrip()) is not None


class _Failing:
    """Names of tests that failed before anything was changed."""

    def __init__(self) -> None:
        self.before: set[str] = set()
        self.edited = False


class _Checks:
    """Tests and programs since the last edit of a turn."""

    def __init__(self) -> None:
        self.edits = self.edits_after_green = 0
        self.green = self.committed = False
        self.tests: list[tuple[bool, str, str]] = []  # passed, output, command: since the last edit
        self.runs: list[bool] = []
        self.last_test: bool | None = None
        self.last_call: bool | None = None

    def take(self, call: ToolUse, failing: _Failing) -> None:
        """Take the next call."""
        outcome = call_outcome(call)
        if call.result is None or outcome in (CallOutcome.THROTTLED, CallOutcome.DECLINED):
            return
        passed = outcome is CallOutcome.OK
        self.last_call = passed
        match action_of(call):
            case Action.EDIT if passed:
                self._edited(failing)
            case Action.TEST:
                self._tested(passed, call.result, command_of(call), failing)
            case Action.RUN:
                self.runs.append(passed)
            case Action.COMMIT if passed:
                self.committed = True
            case _:
                pass

    def _edited(self, failing: _Failing) -> None:
        failing.edited = True
        self.edits += 1
        self.edits_after_green += self.green
        self.tests, self.runs = [], []

    def _tested(self, passed: bool, result: str, command: str, failing: _Failing) -> None:
        # A pipe hides the exit status: "pytest | tail" ends with 0 whatever the tests did.
        passed = passed and outcome_of(result, None) is CallOutcome.OK
        if not failing.edited:
            failing.before |= failed_tests(result)
        self.tests.append((passed, result, command))
        self.last_test = passed
        if passed:
            self.green, self.edits_after_green = True, 0

    def verdict(self, failing: _Failing) -> tuple[bool | None, str]:
        """Whether the turn's work was done, and what proves it."""
        if self.tests:
            passed, output, command = self.tests[-1]
            if passed or self._only_old_failures(output, failing):
                return True, "tests"
            # Others may have failed before, too: nobody ran them. What was aimed at passed.
            aimed_at = any(good and other != command for good, _, other in self.tests)
            return (None, "") if aimed_at else (False, "tests")
        if self.edits or self.runs:
            return (self.runs[-1], "run") if self.runs else (None, "")
        return (False, "run") if self.last_call is False else (None, "")

    def _only_old_failures(self, output: str, failing: _Failing) -> bool:
        """Whether the tests that still fail all failed before, and fewer than before or others passed."""
        names = failed_tests(output)
        if not names or not names <= failing.before or not self.edits:
            return False
        return names < failing.before or any(passed for passed, _, _ in self.tests)


def _judge(
    requests: Sequence[Request],
    first: int,
    end: int,
    failing: _Failing,
    stuck_at: frozenset[int],
    *,
    corrected: bool,
) -> TurnOutcome:
    checks = _Checks()
    for request in requests[first:end]:
        for call in request.calls:
            checks.take(call, failing)
    solved, by = checks.verdict(failing)
    if corrected:
        solved, by = False, "correction"
    elif solved is not True and _ends_stuck(requests, first, end, stuck_at):
        solved, by = False, "stuck"
    return TurnOutcome(
        first,
        end,
        solved,
        by,
        checks.edits,
        checks.edits_after_green,
        tests_failing=checks.last_test is False and solved is not True,
        committed=checks.committed,
    )


def _ends_stuck(requests: Sequence[Request], first: int, end: int, stuck_at: frozenset[int]) -> bool:
    """Whether the last calls of a turn left the agent stuck."""
    for index in range(end - 1, first - 1, -1):
        if requests[index].calls:
            return index in stuck_at
    return False
