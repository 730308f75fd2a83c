"""Whether the work of a turn was checked: tests, programs and edits in their order.

A *turn* is one message of the person and all that follows it. Nothing is inferred from what the model says of
its own work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pointsman.trajectory.step import UNNAMED, Action, TrajectoryState

__all__ = ["Checks", "Failing", "Unfinished", "unfinished"]


class Unfinished(StrEnum):
    """Evidence that the work of a turn is not done, at its end."""

    TESTS_FAIL = "tests_fail"  # the last test run failed, and nothing was edited since
    EDITED_AFTER_TESTS = "edited_after_tests"  # nothing was run since the edits after the last test run
    COMMAND_FAILED = "command_failed"  # no test was run since the last edit, and the last program failed
    NOT_RUN = "not_run"  # files were edited, and neither a test nor a program was run


@dataclass(slots=True)
class Failing:
    """Names of tests that failed before anything was changed, over a session."""

    before: set[str] = field(default_factory=set)
    edited: bool = False


class Checks:
    """Tests and programs since the last edit of a turn."""

    def __init__(self, failing: Failing) -> None:
        self._failing = failing
        self.edits = self.edits_after_green = 0
        self.green = self.committed = False
        self.tests: list[tuple[frozenset[str], str]] = []  # tests that failed, call: since the last edit
        self.runs: list[bool] = []  # since the last edit
        self.last_test: bool | None = None
        self.last_call: bool | None = None

    def take(self, action: Action, passed: bool, failed: frozenset[str], call: str) -> None:
        """Take the next call.

        Args:
            action: The effect.
            passed: Whether it did without an error.
            failed: Tests that failed in a test run.
            call: What equal calls have in common.
        """
        self.last_call = passed
        match action:
            case Action.EDIT if passed:
                self._edited()
            case Action.TEST:
                self._tested(failed, call)
            case Action.RUN:
                self.runs.append(passed)
            case Action.COMMIT if passed:
                self.committed = True
            case _:
                pass

    def _edited(self) -> None:
        self._failing.edited = True
        self.edits += 1
        self.edits_after_green += self.green
        self.tests, self.runs = [], []

    def _tested(self, failed: frozenset[str], call: str) -> None:
        if not self._failing.edited:
            self._failing.before |= failed - {UNNAMED}
        self.tests.append((failed, call))
        self.last_test = not failed
        if not failed:
            self.green, self.edits_after_green = True, 0

    def verdict(self) -> tuple[bool | None, str]:
        """Whether the turn's work was done, and what proves it: "tests", "run", or nothing."""
        if self.tests:
            failed, last = self.tests[-1]
            if not failed or self._only_old_failures(failed):
                return True, "tests"
            # Others may have failed before, too: nobody ran them. What was aimed at passed.
            aimed_at = any(not red and call != last for red, call in self.tests)
            return (None, "") if aimed_at else (False, "tests")
        if self.edits or self.runs:
            return (self.runs[-1], "run") if self.runs else (None, "")
        return (False, "run") if self.last_call is False else (None, "")

    def _only_old_failures(self, failed: frozenset[str]) -> bool:
        """Whether the tests that still fail all failed before, and fewer than before or others passed."""
        before = self._failing.before
        if not failed <= before or not self.edits:
            return False
        return failed < before or any(not red for red, _ in self.tests)

    def unfinished(self) -> Unfinished | None:
        """Evidence that the turn's work is not done; None without edits or evidence."""
        if not self.edits:
            return None
        solved, by = self.verdict()
        if solved is False:
            return Unfinished.TESTS_FAIL if by == "tests" else Unfinished.COMMAND_FAILED
        if self.tests or self.runs:
            return None
        return Unfinished.NOT_RUN if self.last_test is None else Unfinished.EDITED_AFTER_TESTS


def unfinished(state: TrajectoryState) -> tuple[Unfinished, frozenset[str]] | None:
    """What speaks against the latest turn's work being done, and the tests that fail as digests.

    The turn is the one whose calls came last, also if a user message followed. Of a turn longer than the
    window only its end is known: "nothing was run" is then not reported.

    Args:
        state: A run with the effects of its steps (``TrajectoryAnalysisConfig.actions``).
    """
    failing, checks = Failing(), None
    for step in state.steps:
        if checks is None or step.user_boundary:
            checks = Checks(failing)
        if step.did and not step.is_neutral:
            checks.take(Action(step.did[0]), not step.is_error, frozenset(step.did[1:]), step.arguments)
    found = checks.unfinished() if checks else None
    if checks is None or found is None:
        return None
    is_whole = state.tool_call_count == len(state.steps) or any(step.user_boundary for step in state.steps)
    if found is Unfinished.NOT_RUN and not is_whole:
        return None
    return found, checks.tests[-1][0] if found is Unfinished.TESTS_FAIL else frozenset()
