"""Real agents, started with the lines that ``pointsman serve`` prints, over the demo upstream of each format.

    npm install --prefix /tmp/agents @anthropic-ai/claude-code @openai/codex opencode-ai
    python scripts/printed_lines.py /tmp/agents/node_modules/.bin

A printed line starts an agent for a conversation. Here each is given one prompt instead, with the option that
the agent has for it, and its answer must be the demo upstream's. Agents that are not there are left out.
Everything stays on this machine. The lines for curl and the SDKs are run by
tests/cli/test_first_five_minutes.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from real_agents.gateway import announced

from pointsman.upstreams.connections import LABEL
from pointsman.vocabulary import WireFormat

_TIMEOUT: Final = 180.0  # seconds for one agent
_PROMPT: Final = "Hello!"
#: What stands in a line -> what takes its place, so that the agent answers once and ends.
_ONCE: Final = {
    "Claude Code": (" claude", f" claude -p '{_PROMPT}'"),
    "Codex": ("codex -c", "codex exec --skip-git-repo-check -c"),
    "opencode": (" opencode --model", " opencode run --model"),
}
_CONFIGURATION: Final = """
[upstreams.demo]
base_url = "demo:"
formats = ["{spoken}"]

[models]
one = {{ upstream = "demo", id = "demo-small" }}

[tiers]
simple = "one"
medium = "one"
complex = "one"
reasoning = "one"

[ledger]
path = "ledger.sqlite"
"""


def once(client: str, line: str) -> str:
    """The line with one prompt: Claude Code takes it with an option, the others at the end."""
    stands, instead = _ONCE[client]
    command = line.replace(stands, instead, 1)
    return command if client == "Claude Code" else f"{command} '{_PROMPT}'"


def answer(command: str, binaries: Path, home: Path) -> str:
    """What an agent says; its settings are those of nobody."""
    environment = {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "HOME": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }
    try:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {_TIMEOUT:g} s"
    return done.stdout + done.stderr


def main() -> int:
    """Run the lines, and return how many failed."""
    binaries = Path(sys.argv[1]).resolve()
    failed = 0
    for spoken in WireFormat:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            (folder / "pointsman.toml").write_text(_CONFIGURATION.format(spoken=spoken), encoding="utf-8")
            with announced("Ledger: ", cwd=folder) as said:
                lines = {line[2:20].strip(): line[20:] for line in said if line.startswith("  ")}
                for client, (stands, _) in _ONCE.items():
                    if not (binaries / stands.split()[0]).exists():
                        print(f"{client:<12} {spoken:<10} not installed")
                        continue
                    home = folder / client.replace(" ", "-")
                    home.mkdir()
                    answered = answer(once(client, lines[client]), binaries, home)
                    failed += LABEL not in answered
                    shown = "answers" if LABEL in answered else repr(answered[-600:])
                    print(f"{client:<12} {spoken:<10} {shown}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
