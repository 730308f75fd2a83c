"""Effect of a tool call on the work: an edit of a file, a run of tests, a run of another program, or another.

The one reading for the audit of logs and for the evidence at the end of a run. A test run is believed by its
result, not by its exit status alone: "pytest | tail" ends with 0 whatever the tests did.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from pointsman.decoding import decoded_or
from pointsman.text.extract import digest
from pointsman.trajectory._events import ProgressIndicator, ToolInvoked, canonical_arguments, step_of
from pointsman.trajectory._failures import outcome_of
from pointsman.trajectory.agent_tools import EDITING, SHELLS
from pointsman.trajectory.step import UNNAMED, Action, CallOutcome, Step

__all__ = ["acted", "action_of", "command_of", "failed_tests", "step_with_action", "tests_that_failed"]


#: Failed tests of one test run that are kept in a step: with more of them it is no question which.
MAX_FAILED: Final = 32
#: Characters of a test run's output in which its names of failed tests, and its summary, are looked for.
_READ: Final = 20_000
_SUMMARY: Final = 1_000

_EDITS: Final = re.compile(
    r"\*\*\* Begin Patch|\bsed\s+(?:-\w+\s+)*-i|\bgit apply\b|\bpatch\s+-p\d"
    r"|(?<![0-9&>])>>?\s*(?!/dev/|/tmp/)(?![\w./~-]+\.(?:log|out)\b)[\w./~-]+\.\w+"
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
#: Editors with several commands have one that only shows a file.
_SHOWS: Final = frozenset({"view", "undo_edit"})
_PATH_KEYS: Final = ("file_path", "path", "filename", "filePath", "target_file", "notebook_path")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_PROSE: Final = re.compile(
    r"\.(?:md|mdx|rst|adoc)$|(?:^|[\\/])(?:LICEN[CS]E|CHANGELOG|README|AUTHORS)$", re.IGNORECASE
)
_OLD_KEYS: Final = ("old_string", "oldString", "old_str")
_NEW_KEYS: Final = ("new_string", "newString", "new_str")
#: A line that no program runs: blank, or a comment alone. "#include" and "#[derive" are no comments.
_COMMENT: Final = re.compile(
    r"\s*(?:$|//|<!--|\#(?!\s*(?:include|define|undef|if|ifdef|ifndef|else|elif|endif|pragma)\b|!|\[))"
)
_CHANGED_LINE: Final = re.compile(r"^([+-])(?![+-]{2} )(.*)$", re.MULTILINE)
#: Names of failed tests in the output of unittest, pytest, go, cargo and TAP.
_FAILED: Final = re.compile(
    r"^(?:FAIL|ERROR): (\S+)|^(?:FAILED|ERROR) (\S+::\S+)|^\s*--- FAIL: (\S+)|^test (\S+) \.\.\. FAILED"
    r"|^\s*not ok \d+ -? ?(.+)$|^\s*[✕✖×] (.+?)(?: \(\d.*)?$",
    re.MULTILINE,
)
#: How a test run sums up when tests failed, also where its output is cut or quiet ("1 failed in 0.02s").
_FAILING: Final = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:failed|failing|failures?|errors?)\b(?!\s+(?:expected|ignored))"
    r"|\bfail(?:ures|ed)?[:=]? [1-9]|^FAIL\b|^FAILED\b|test result: FAILED|\bErrors: [1-9]|\bBUILD FAIL",
    re.MULTILINE,
)
#: A runner that is missing, found nothing, was stopped or has not ended says nothing about the work.
_NOT_RUN: Final = re.compile(
    r"command not found|not recognized as an? |no module named ['\"]?(?:pytest|tox|nox|nose)\b|missing script"
    r"|no test specified|no tests? (?:ran|found|files?)|collected 0 items|Ran 0 tests|timed out after"
    r"|process running with session|running in (?:the )?background",
    re.IGNORECASE,
)


def command_of(name: str, arguments: str) -> str:
    """The command line of a shell call; "" for other tools."""
    lowered = name.lower()
    if lowered not in SHELLS and lowered.rpartition(".")[2] not in SHELLS:
        return ""
    values = _decoded(arguments)
    if values is None:
        return arguments  # cut, or plain text
    for key in _COMMAND_KEYS:
        value = values.get(key)
        if value:
            return " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return ""


def action_of(name: str, arguments: str) -> Action:
    """Effect of a call.

    Args:
        name: Of the tool.
        arguments: JSON text, or what there is of it.
    """
    if _is_editor(name):
        return _edit(arguments)
    command = command_of(name, arguments)
    if not command:
        return Action.OTHER
    parts = [part for part in _PARTS.split(command) if not _READERS.match(part)]
    if any(_TESTS.search(part) for part in parts):
        return Action.TEST
    if _EDITS.search(command):
        return _patch(command)
    if _COMMITS.search(command):
        return Action.COMMIT
    return Action.RUN if _RUNS.search(command) else Action.OTHER


def acted(name: str, arguments: str, text: str, is_error: bool | None) -> tuple[Action, frozenset[str]]:
    """Effect of a call and its result.

    Args:
        name: Of the tool.
        arguments: JSON text, or what there is of it.
        text: Of the result.
        is_error: The format's flag, if present; None: the text decides.

    Returns:
        The effect, and the names of the tests that failed in a test run: none where it passed. A runner that
        could not run, or has not ended, is ``OTHER``.
    """
    action = action_of(name, arguments)
    if action is not Action.TEST:
        return action, frozenset()
    failed = tests_that_failed(text, is_error)
    return (Action.OTHER, frozenset()) if failed is None else (action, failed)


def step_with_action(
    event: ToolInvoked,
    *,
    turn: int,
    before: str,
    indicators: Sequence[ProgressIndicator],
    poll_tools: frozenset[str],
) -> Step:
    """``step_of``, and the effect of the call on the work."""
    step = step_of(event, turn=turn, before=before, indicators=indicators, poll_tools=poll_tools)
    result = event.result
    if result is None:
        return step
    action, failed = acted(event.tool_name, canonical_arguments(event.params), result.text, result.is_error)
    named = sorted(name and digest(name) for name in failed)[:MAX_FAILED]
    return replace(step, did=(action.value, *named))


def tests_that_failed(text: str, is_error: bool | None) -> frozenset[str] | None:
    """Names of the tests that failed in a test run; ``UNNAMED`` if none is named, none if it passed.

    None: the tests did not run, or the run has not ended.
    """
    end = text[-_SUMMARY:]
    names = failed_tests(text)
    # A pipe hides the exit status, and some formats have none.
    is_red = bool(is_error or names or _FAILING.search(end) or outcome_of(text, None) is CallOutcome.ERROR)
    if not names and _NOT_RUN.search(end):
        return None
    if not is_red:
        return frozenset()
    return names or frozenset({UNNAMED})


def failed_tests(result: str) -> frozenset[str]:
    """Names of the tests that failed, as test runners print them."""
    read = result if len(result) <= _READ else result[-_READ:]
    return frozenset(next(filter(None, found)).strip() for found in _FAILED.findall(read))


def _decoded(arguments: str) -> dict[str, object] | None:
    values = decoded_or(None, msgspec.json.decode, arguments)
    return values if isinstance(values, dict) else None


def _is_editor(name: str) -> bool:
    prefix, _, last = name.lower().rpartition("__")
    return last in EDITING and (not prefix or "_" in last)  # "create" of an MCP server may create anything


def _edit(arguments: str) -> Action:
    values = _decoded(arguments)
    if values is None:
        return _patch(arguments)
    if values.get("command") in _SHOWS:
        return Action.OTHER
    old, new = _text_at(values, _OLD_KEYS), _text_at(values, _NEW_KEYS)
    if old is not None and new is not None and _code(old.splitlines()) == _code(new.splitlines()):
        return Action.PROSE
    paths = [str(values[key]) for key in _PATH_KEYS if values.get(key)]
    return _prose_or_edit(paths) if paths else _patch("\n".join(map(str, values.values())))


def _text_at(values: dict[str, object], keys: tuple[str, ...]) -> str | None:
    return next((found for key in keys if isinstance(found := values.get(key), str)), None)


def _patch(text: str) -> Action:
    """Effect of a patch; any other text is an edit."""
    paths = _PATCHED.findall(text)
    lines = _CHANGED_LINE.findall(text)
    old = _code([line for sign, line in lines if sign == "-"])
    if paths and lines and old == _code([line for sign, line in lines if sign == "+"]):
        return Action.PROSE
    return _prose_or_edit(paths)


def _code(lines: list[str]) -> list[str]:
    """Lines without those that no program runs; their indentation counts."""
    return [line.rstrip() for line in lines if not _COMMENT.match(line)]


def _prose_or_edit(paths: list[str]) -> Action:
    return Action.PROSE if paths and all(_PROSE.search(path.strip()) for path in paths) else Action.EDIT
