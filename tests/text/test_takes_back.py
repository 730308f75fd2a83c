"""Messages that reject the answer before them, and near misses."""

import pytest

from pointsman.text.extract import takes_back


@pytest.mark.parametrize(
    "text",
    [
        "Undo the last change",
        "undo",
        "Undo.",
        "undo this",
        "Revert the change",
        "Revert your changes, please",
        "Wrong!",
        "wrong file, it's in src/",
        "no, that is not the file I meant",
        "No, that is not true",
        "That isn't what I asked",
        "that isn't right",
        "That still isn\u2019t right",
        "it is still not right",
        "no no, that's wrong",
        "  No. That's the wrong one",
        "I asked for JSON",
        "I asked you to keep the names",
        "I said not to touch the tests",
        "I meant the other file",
        "it isn't working",
        "still doesnt work",
    ],
)
def test_a_message_that_takes_the_answer_back(text: str) -> None:
    assert takes_back(text)


@pytest.mark.parametrize(
    "text",
    [
        "I asked my colleague and he wants a CSV export too",
        "I said hello in the README, translate it to German",
        "It is not right now, but later",
        "This is not how the docs say it, update the docs",
        "Is not work related",
        "The README says: undo",
        "undocumented options are next",
        "Undo in the editor loses the cursor, fix it",
        "Revert commits older than a week in the script",
        "Wrong file is opened at a click: mend the handler",
        "Wrongly named files are next",
        "It is not the end of the list that is sorted, but its beginning",
        "no",
        "no, no",
        "Now that is not hard",
    ],
)
def test_a_message_that_only_begins_like_one_that_takes_the_answer_back(text: str) -> None:
    assert not takes_back(text)


@pytest.mark.parametrize("text", ["no, ", "no ", " ", "undo ", "that is not the a a a ", "wrong "])
def test_whether_a_long_message_takes_back_is_decided_in_linear_time(text: str) -> None:
    assert not takes_back(text + text[-1] * 1_000_000 + "x")
