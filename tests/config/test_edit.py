"""Setting one value of a file and keeping the rest of it to the letter."""

import tomllib
from pathlib import Path

import pytest

from pointsman.config.edit import set_value, write_file
from pointsman.errors import ConfigError

PATH = ("tiers", "verify", "model")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "[tiers] # t\nverify = { model = 'a', margin = 0.1 } # why\n",
            '[tiers] # t\nverify = { model = "b", margin = 0.1 } # why\n',
        ),
        ("[tiers.verify]\nmodel = 'a' # why\n", '[tiers.verify]\nmodel = "b" # why\n'),
        ("[tiers.verify]\nmargin = 0.1\n", '[tiers.verify]\nmodel = "b"\nmargin = 0.1\n'),
        ("[tiers]\nsimple = 's'\n", "[tiers]\nverify = { model = \"b\" }\nsimple = 's'\n"),
        ("[tiers]", '[tiers]\nverify = { model = "b" }\n'),
        ("[tiers]\nverify = {}\n", '[tiers]\nverify = { model = "b" }\n'),
        ("[tiers]\nverify = { margin = 1 }\n", '[tiers]\nverify = { margin = 1, model = "b" }\n'),
        ("tiers = { simple = 's' }\n", "tiers = { simple = 's', verify = { model = \"b\" } }\n"),
        ("tiers.verify.model = 'a'\n", 'tiers.verify.model = "b"\n'),
        ("# nothing", '# nothing\n\n[tiers]\nverify = { model = "b" }\n'),
        ("", '\n[tiers]\nverify = { model = "b" }\n'),
    ],
)
def test_one_value_is_set_and_the_rest_stays(before: str, after: str) -> None:
    assert set_value(before, PATH, '"b"') == after
    assert tomllib.loads(after)["tiers"]["verify"]["model"] == "b"
    assert set_value(after, PATH, '"b"') == after


@pytest.mark.parametrize("before", ["tiers.simple = 's'\n[guidance]\n", "tiers = 3\n"])
def test_a_table_that_cannot_be_extended_is_not_touched(before: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot set tiers\.verify\.model") as refused:
        set_value(before, PATH, '"b"')
    assert refused.value.hint == 'write it yourself: tiers.verify.model = "b"'


def test_a_file_is_replaced_in_one_step_and_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    file, link = tmp_path / "real.toml", tmp_path / "pointsman.toml"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_file(link, "new")
    assert (file.read_text(), link.is_symlink()) == ("new", True)
    assert file.stat().st_mode & 0o777 == 0o640
    write_file(tmp_path / "made.toml", "x")
    assert (tmp_path / "made.toml").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"real.toml", "pointsman.toml", "made.toml"}
