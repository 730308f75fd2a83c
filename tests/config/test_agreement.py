"""``[agreement.NAME]``: models that can be compared, with prices."""

from pathlib import Path

import pytest

from pointsman.config import examine

BASE = """\
[upstreams]
main = { base_url = "https://llm.example.com/v1" }
chat = { base_url = "https://other.example.com/v1", formats = ["chat"], translate = false }
own  = { base_url = "https://own.example.com/v1", forward_auth = true }
messages = { base_url = "https://third.example.com/v1", formats = ["messages"], translate = false }
[models]
a = { upstream = "main", id = "x-1", input_per_million = 1, output_per_million = 1 }
b = { upstream = "main", id = "x-2", input_per_million = 1, output_per_million = 1 }
s = { upstream = "main", id = "x-3", input_per_million = 9, output_per_million = 9 }
dark = { upstream = "main", id = "example-of-no-catalogue" }
plain = { upstream = "main", id = "x-4", input_per_million = 1, output_per_million = 1, features = [] }
c = { upstream = "chat", id = "x-5", input_per_million = 1, output_per_million = 1 }
m = { upstream = "messages", id = "x-6", input_per_million = 1, output_per_million = 1 }
o = { upstream = "own", id = "x-7", input_per_million = 1, output_per_million = 1 }
[agreement.tools]
"""
CASES = {
    'cheap = ["a", "b"]': "",
    'cheap = ["a", "b"]\nstrong = "s"\ntiers = ["complex"]\nroles = ["message"]\nprojects = ["p"]': "",
    'cheap = ["a"]': "a list of 2 strings",
    'cheap = ["a", "bb"]': 'unknown model "bb"',
    'cheap = ["a", "b"]\nstrong = "sonnet"': 'unknown model "sonnet"',
    'cheap = ["a", "a"]': "a model always agrees with itself",
    'cheap = ["a", "b"]\nstrong = "a"': "a model always agrees with itself",
    'cheap = ["a", "dark"]': 'the price of "dark" is unknown, so nobody could tell what agreement saves',
    'cheap = ["a", "b"]\nstrong = "dark"': 'the price of "dark" is unknown',
    'cheap = ["a", "plain"]': '"plain" has no tools, so nothing agrees on requests that need them',
    'cheap = ["c", "m"]': '"c", "m" have no format in common',
    'cheap = ["a", "o"]': "its upstream takes the credential of a caller",
    'cheap = ["a", "b"]\nroles = ["boss"]': '"roles" in [agreement.tools]',
    'cheap = ["a", "b"]\ntimeout = 0': '"timeout" in [agreement.tools]',
    'cheap = ["a", "b"]\nshare = 2': '"share" in [agreement.tools]',
    'cheap = ["a", "b"]\ndisagreements = 0': '"disagreements" in [agreement.tools]',
    'cheap = ["a", "b"]\ntimout = 3': 'did you mean "timeout"?',
}


@pytest.mark.parametrize("written", CASES)
def test_the_table(tmp_path: Path, written: str) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(BASE + written + "\n", encoding="utf-8")
    errors = [str(error) for error in examine(file, {}).errors]
    said = CASES[written]
    assert bool(errors) is bool(said), errors
    assert not said or any(said in error and f"{file}:" in error for error in errors), errors
