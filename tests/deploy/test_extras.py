"""What the extra ``all`` holds, and what it leaves out with its reason."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Extra -> why it is not in ``all``.
LEFT_OUT = {"litellm": "whose newest stable release requires openai below 3"}


def test_all_holds_every_extra_but_what_excludes_others() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    held = {name for line in extras["all"] for name in re.findall(r"\[(.*)\]", line)[0].split(",")}
    assert held == extras.keys() - {"all", *LEFT_OUT}
    for name, reason in LEFT_OUT.items():
        assert f"# All but `{name}`, {reason}" in text


def test_the_lock_of_development_has_what_all_resolves_to() -> None:
    """Tests run with what ``all`` installs: OpenAI Agents has ``agents.testing`` from 0.24 on."""
    locked = (ROOT / "requirements" / "dev.txt").read_text("utf-8")
    found = re.search(r"^openai-agents==(\d+)\.(\d+)", locked, re.MULTILINE)
    assert found is not None
    assert (int(found[1]), int(found[2])) >= (0, 24)
    assert not re.search(r"^litellm==", locked, re.MULTILINE)
