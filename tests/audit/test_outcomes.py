"""What a log proves of its turns: tables of tests, programs, edits and corrections, with near misses."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.audit.figures import figures
from pointsman.audit.outcomes import signs, turn_outcomes
from pointsman.audit.session import KEPT, Request, Session, ToolUse, Usage, cut
from pointsman.trajectory.actions import action_of, failed_tests
from pointsman.trajectory.step import Action

FAILED: Final = "FAIL: test_b (t.T.test_b)\n\nRan 2 tests in 0.1s\n\nFAILED (failures=1)"
OTHER: Final = "FAIL: test_z (t.T.test_z)\n\nRan 9 tests in 0.1s\n\nFAILED (failures=1)"
BOTH: Final = f"FAIL: test_b (t.T.test_b)\n{OTHER}"
PASSED: Final = "..\nRan 2 tests in 0.1s\n\nOK"


def shell(command: str, result: str = "", *, error: bool = False) -> ToolUse:
    return ToolUse(
        "c", "Bash", f'{{"command": "{command}"}}', result, is_error=error, result_length=len(result)
    )


def ran_tests(result: str) -> ToolUse:
    return shell("pytest tests/t.py", result, error="FAILED" in result)


EDIT: Final = ToolUse("e", "Edit", "{}", "updated", is_error=False, result_length=7)
REJECTED: Final = ToolUse("e", "Edit", "{}", "String to replace not found", is_error=True)
READ: Final = ToolUse("r", "Read", "{}", "x = 1", is_error=False, result_length=5)
RAN: Final = shell("python3 main.py", "800")
BROKE: Final = shell("python3 main.py", "Exit code 1", error=True)
LISTED: Final = shell("ls", "a.py")


def session(*turns: tuple[str, tuple[ToolUse, ...]]) -> Session:
    """One request per call, and one that ends the turn."""
    requests: list[Request] = []
    for prompt, calls in turns:
        for number, call in enumerate([*calls, None]):
            requests.append(
                Request(
                    id=str(len(requests)),
                    at=1_795_000_000.0 + len(requests),
                    prompt=prompt if number == 0 else None,
                    calls=(call,) if call else (),
                    usage=Usage(input_tokens=1_000 + len(requests), output_tokens=5, output_at_most=5),
                )
            )
    return Session(id="s", client="claude-code", requests=tuple(requests))


@pytest.mark.parametrize(
    ("calls", "solved", "by"),
    [
        ((ran_tests(FAILED), EDIT, ran_tests(PASSED)), True, "tests"),
        ((ran_tests(FAILED), EDIT, ran_tests(FAILED)), False, "tests"),
        ((EDIT, ran_tests(PASSED), EDIT), None, ""),  # the edit after it was never tested
        ((EDIT,), None, ""),
        ((EDIT, LISTED), None, ""),  # a program that shows nothing
        ((EDIT, BROKE, RAN), True, "run"),
        ((EDIT, RAN, BROKE), False, "run"),
        ((EDIT, ran_tests(PASSED), BROKE), True, "tests"),  # tests say more than a program
        ((READ, LISTED), None, ""),
        ((), None, ""),
        ((REJECTED,), False, "run"),
        ((ran_tests(BOTH), EDIT, ran_tests(OTHER)), True, "tests"),  # what still fails failed before
        ((ran_tests(OTHER), EDIT, ran_tests(OTHER)), False, "tests"),  # and nothing else was mended
        ((ran_tests(FAILED), EDIT, ran_tests(BOTH)), False, "tests"),  # another one broke
        ((EDIT, ran_tests(PASSED), shell("pytest", OTHER)), None, ""),  # others fail: since when?
        ((EDIT, ran_tests(PASSED), ran_tests(FAILED)), False, "tests"),
        ((EDIT, shell("pytest | tail -3", FAILED)), False, "tests"),  # a pipe hides the status
        ((shell("cat pytest.ini", "FAILED (failures=1)"), READ), None, ""),
    ],
)
def test_what_proves_a_turn(calls: tuple[ToolUse, ...], solved: bool | None, by: str) -> None:
    (outcome,) = turn_outcomes(session(("Fix it.", calls)))
    assert (outcome.solved, outcome.by) == (solved, by)


@pytest.mark.parametrize(
    ("answer", "solved"),
    [
        ("No, that is the wrong file.", False),
        ("That's not what I meant", False),
        ("it still doesn't work", False),
        ("Revert that.", False),
        ("No problem! Now the other one.", True),
        ("No, that's all for now. Thank you!", True),  # an answer to "Shall I update the docs too?"
        ("No, not now.", True),
        ("Nope, keep the tests as they are.", True),
        ("Now add a button", True),
        ("Notify the team.", True),
        ("Wrongly named files are next.", True),
    ],
)
def test_a_correction_by_the_person(answer: str, solved: bool) -> None:
    first, _ = turn_outcomes(session(("Fix it.", (EDIT, ran_tests(PASSED))), (answer, ())))
    assert first.solved is solved


@pytest.mark.parametrize(
    ("calls", "after_green"),
    [
        ((EDIT, ran_tests(PASSED), EDIT, EDIT), 2),
        ((EDIT, ran_tests(PASSED)), 0),
        ((EDIT, ran_tests(PASSED), EDIT, ran_tests(PASSED)), 0),
        ((ran_tests(FAILED), EDIT), 0),
    ],
)
def test_edits_after_the_last_passing_run(calls: tuple[ToolUse, ...], after_green: int) -> None:
    (outcome,) = turn_outcomes(session(("Fix it.", calls)))
    assert outcome.edits_after_green == after_green


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("python -m pytest -q", Action.TEST),
        ("npm test", Action.TEST),
        ("npm run test:unit", Action.TEST),
        ("cd app && go test ./...", Action.TEST),
        ("cargo test", Action.TEST),
        ("npm install", Action.OTHER),
        ("pip install pytest", Action.OTHER),
        ("cat pytest.ini; pytest", Action.TEST),
        ("git log --grep testing", Action.OTHER),
        ("python3 main.py", Action.RUN),
        ("./run.sh", Action.RUN),
        ("cat main.py", Action.OTHER),
        ("sed -i s/a/b/ main.py", Action.EDIT),
        ("echo x > notes.txt", Action.EDIT),
        ("ls 2>/dev/null", Action.OTHER),
        ("git commit -m done", Action.COMMIT),
        ("git status", Action.OTHER),
    ],
)
def test_what_a_command_does(command: str, action: Action) -> None:
    assert action_of("Bash", shell(command).arguments) is action


@pytest.mark.parametrize(
    ("output", "names"),
    [
        (BOTH, {"test_b", "test_z"}),
        ("FAILED tests/a.py::test_x - assert 1 == 2", {"tests/a.py::test_x"}),
        ("--- FAIL: TestSum (0.00s)", {"TestSum"}),
        ("test sums::adds ... FAILED", {"sums::adds"}),
        ("not ok 2 - adds", {"adds"}),
        ("ok 1 - adds", set()),
    ],
)
def test_names_of_failed_tests(output: str, names: set[str]) -> None:
    assert failed_tests(output) == names


def stuck(times: int) -> tuple[ToolUse, ...]:
    return (shell("node check.js", "Exit code 1\nError: Cannot find module", error=True),) * times


@pytest.mark.parametrize(
    ("turns", "is_stuck"),
    [
        ([("Run it.", stuck(6))], True),
        ([("Run it.", stuck(2))], False),
        ([("Run it.", (*stuck(4), EDIT, ran_tests(PASSED)))], False),  # it found a way
        ([("Run it.", stuck(6)), ("What is this?", ())], True),  # the person moved on
        ([("Run it.", stuck(6)), ("Make it.", (EDIT, ran_tests(PASSED)))], False),
    ],
)
def test_a_session_that_ended_stuck(turns: list[tuple[str, tuple[ToolUse, ...]]], is_stuck: bool) -> None:
    found = figures(session(*turns))
    assert found.stuck is is_stuck


def test_what_a_session_cost_after_the_first_sign() -> None:
    found = figures(session(("Run it.", stuck(6))))
    (part,) = found.after_sign
    assert part.spent.requests == 4  # the third call is the sign; three calls and the last answer follow
    assert {sign.detector for sign in found.signs} >= {"doom_loop", "repeated_error"}


CALLS = st.sampled_from(
    [EDIT, REJECTED, READ, RAN, BROKE, LISTED, ran_tests(FAILED), ran_tests(PASSED), *stuck(1)]
)


@given(st.lists(st.tuples(st.sampled_from(["Fix it.", "No."]), st.lists(CALLS).map(tuple)), max_size=4))
def test_every_request_is_in_one_turn_and_counted_once(turns: list[tuple[str, tuple[ToolUse, ...]]]) -> None:
    made = session(*turns)
    found = figures(made)
    assert found.total().requests == len(made.requests)
    assert found.total().input_tokens == sum(each.usage.input_tokens for each in made.requests)
    covered = [index for outcome in found.outcomes for index in range(outcome.first, outcome.end)]
    assert covered == list(range(len(made.requests)))
    assert sum(part.spent.requests for part in found.after_sign) <= len(made.requests)
    assert all(sign.first < sign.end <= len(made.requests) for sign in signs(made.requests))
    assert sum(found.where.values()) == pytest.approx(found.total().input_tokens, abs=4 * len(made.requests))


@given(st.text(max_size=3 * KEPT))
def test_a_text_is_cut_in_the_middle(text: str) -> None:
    found = cut(text)
    assert len(found) <= KEPT + 50
    assert found[: KEPT // 2] == text[: KEPT // 2]
    assert found.endswith(text[-KEPT // 2 :])
