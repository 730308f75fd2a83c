"""``stores.replacing``: a file is the old one or the new one, never a part."""

from pathlib import Path
from stat import S_IMODE

import pytest

from pointsman.stores.replacing import SHARED, replaced


def test_it_is_the_new_one_at_the_end_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with replaced(file) as draft:
        draft.write_text("new")
        assert file.read_text() == "old"
        assert draft.parent == tmp_path
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


def test_an_error_leaves_the_old_one_and_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(IsADirectoryError), replaced(file) as draft:
        tmp_path.write_text(draft.name)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_permissions_are_those_of_the_old_one_else_the_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for mode, of in ((0o600, None), (0o640, 0o640)):
        if of:
            file.chmod(of)
        with replaced(file) as draft:
            draft.write_text("new")
        assert S_IMODE(file.stat().st_mode) == mode
    other = tmp_path / "other"
    with replaced(other, SHARED) as draft:
        draft.write_text("new")
    plain = tmp_path / "plain"
    plain.touch()
    assert S_IMODE(other.stat().st_mode) == S_IMODE(plain.stat().st_mode)


def test_two_drafts_of_one_file_are_apart(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with replaced(file) as first, replaced(file) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert file.read_text() == "first"
