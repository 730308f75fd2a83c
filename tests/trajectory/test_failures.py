"""Did it fail, and which failure is it: hits beside near misses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.trajectory import CallOutcome, normalize_error, outcome_of

OK, ERROR, THROTTLED, DECLINED = (
    CallOutcome.OK,
    CallOutcome.ERROR,
    CallOutcome.THROTTLED,
    CallOutcome.DECLINED,
)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Error: user not found", ERROR),
        ("Error handling is described in chapter 3", OK),
        ("[ERROR] cannot open", ERROR),
        ("ERROR 12 rows were logged last week", OK),
        ("Error executing tool read_file: missing argument", ERROR),
        ("Traceback (most recent call last):\n  File 'a.py'\nValueError: x", ERROR),
        ("log.txt:\nTraceback (most recent call last):\n...", OK),  # a file that holds one
        ("ValueError: invalid literal", ERROR),
        ("class ParseError(Exception):\n    pass", OK),
        ("bash: foo: command not found", ERROR),
        ("/bin/sh: 1: foo: not found\n[exit code: 127]", ERROR),
        ("Failed to connect", ERROR),
        ("Failed: 0, passed: 12", OK),
        ("Failed: 3, passed: 12", ERROR),
        ("0 failed, 12 passed", OK),
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nboom", ERROR),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nfine", OK),
        ("a long log\n" * 200 + "Process exited with code 2", ERROR),
        ("a long log\n" * 200 + "Process exited with code 0", OK),
        ("a long log\n" * 200 + "exit status 1", ERROR),  # Go
        ("a long log\n" * 200 + "exit status 0", OK),
        ("a long log\n" * 200 + "Exited with 3", ERROR),
        ("a long log\n" * 200 + "Exit Code: 1", ERROR),
        ("EXIT STATUS 2", ERROR),
        ("Exit Code: 0", OK),
        ("a long log\n" * 200 + "Error: x\n" + "and more\n" * 200, OK),  # in the middle of content
        ('{"error": "no such table"}', ERROR),
        ('{"error": null, "rows": []}', OK),
        ('{"success": false, "reason": "busy"}', ERROR),
        ('{"success": true}', OK),
        ('{"output": "boom", "metadata": {"exit_code": 1}}', ERROR),
        ('{"output": "fine", "metadata": {"exit_code": 0}}', OK),
        ('{"output": "' + "x" * 900 + '", "metadata": {"exit_code": 2}}', ERROR),
        ('{"output": "' + "x" * 900 + '", "metadata": {"exit_code": 0}}', OK),
        ('[{"error": "in a list of rows"}]', OK),
        ("<tool_use_error>String to replace not found</tool_use_error>", ERROR),
        ("404 Not Found", ERROR),
        ("404 articles were found", OK),
        ("Permission denied", ERROR),
        ("permissions: 644", OK),
        ("cat: missing.txt: No such file or directory\n", ERROR),
        ("ls: cannot access 'x': No such file or directory", ERROR),
        ("find: /root: Permission denied\n" + "/home/a\n" * 100, OK),  # and a hundred files it found
        ("notes.md: why `No such file or directory` is shown\n" + "and more\n" * 60, OK),
        ("grep: unrecognized option '--foo'", ERROR),
        ("....F\n" * 100 + "===== 1 failed, 4 passed in 0.1s =====", ERROR),
        ("....\n" * 100 + "===== 4 passed in 0.1s =====", OK),
        ("===== 1 failed, 4 passed in 0.1s =====\n" + "fixed since\n" * 60, OK),  # a log, not a run
        ("Ran 3 tests\n\nFAILED (failures=1)", ERROR),
        ("[INFO] BUILD FAILURE\n[INFO] Total time", ERROR),
        ("make: *** [Makefile:3: all] Error 1", ERROR),
        ("npm ERR! missing script: build", ERROR),
        ("error: could not compile `x` due to 2 previous errors", ERROR),
        ("the deployment failed twice last week", OK),
        ("True", OK),
        ("", OK),
        ("429 Too Many Requests", THROTTLED),
        ("Error: rate limit exceeded, retry after 20 s", THROTTLED),
        ("how rate limits work: 429 Too Many Requests means ...", OK),
        ('{"error": {"type": "overloaded_error"}}', THROTTLED),
        ("Error: request was rejected by the user", DECLINED),
    ],
)
def test_where_the_format_does_not_say_the_text_must(text: str, outcome: CallOutcome) -> None:
    assert outcome_of(text, None) is outcome


@pytest.mark.parametrize(
    ("text", "flag", "outcome"),
    [
        ("Error: this is a file about errors", False, OK),
        ("all quiet", True, ERROR),
        ("429", True, THROTTLED),
        ("The user doesn't want to proceed with this tool use.", True, DECLINED),
    ],
)
def test_where_the_format_says_it_is_believed(text: str, flag: bool, outcome: CallOutcome) -> None:
    assert outcome_of(text, flag) is outcome


@pytest.mark.parametrize(
    ("message", "signature"),
    [
        ("open /home/ann/x/conf.toml: no such file", "open conf.toml: no such file"),
        (r"C:\Users\bob\conf.toml is missing", "conf.toml is missing"),
        ("main.py:12:5: unexpected indent", "main.py: unexpected indent"),
        ("syntax error at line 14, column 3 near x", "syntax error , near x"),
        ("2024-05-15T15:00:01.123Z worker died", "worker died"),
        ("job 3f2b6c1e-8d4a-4d0c-9c36-0d9f0a5b7c11 failed", "job failed"),
        ("object at 0x7f3a2b failed", "object at failed"),
        ("request req_01HX7YZK failed", "request failed"),
        ("too    many\tspaces", "too many spaces"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("Exit code 1\nFAILED tests/test_a.py::test_b", "FAILED test_a.py::test_b"),  # not the exit code
        ("Traceback (most recent call last):\n  File \"/a/b.py\", line 3\nKeyError: 'x'", "KeyError: 'x'"),
        ("", ""),
        ("Exit code 1", "Exit code 1"),
    ],
)
def test_what_differs_between_two_occurrences_is_dropped(message: str, signature: str) -> None:
    assert normalize_error(message) == signature


@pytest.mark.parametrize(
    ("first", "second"),
    [("KeyError: 'name'", "KeyError: 'email'"), ("no such table a", "no such table b"), ("code 1", "code 2")],
)
def test_different_errors_stay_different(first: str, second: str) -> None:
    assert normalize_error(first) != normalize_error(second)


@given(st.text(), st.booleans() | st.none())
def test_any_text_can_be_judged_and_normalised(text: str, flag: bool | None) -> None:
    assert outcome_of(text, flag) in CallOutcome
    assert len(normalize_error(text)) <= 160
