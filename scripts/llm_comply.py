"""Nothing that passes directly against an upstream fails through the gateway, as llm-comply tests it.

    uv tool install llm-comply
    python scripts/llm_comply.py llm-comply

The upstream is the built-in demo, served by a gateway of its own; other gateways are put in front of it, each
of which knows one of its formats alone and translates for callers of the two others. The demo passes every
test (the tool skips those of reasoning, going by the name of the model), so that each can be lost; for each
caller and each format of the upstream the gateway in between must change no test's result and no complaint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

from real_agents.gateway import announced

FORMATS = {"chat": "openai-chat", "responses": "open-responses", "messages": "anthropic"}
MODEL = "demo-small"

#: Result and complaints of each test.
Results: TypeAlias = dict[str, tuple[str, list[str]]]

FRONT = """
[upstreams.demo]
base_url = "{upstream}/v1"
formats = ["{spoken}"]
[models]
demo-small = {{ upstream = "demo", id = "demo-small" }}
[tiers]
simple = "demo-small"
medium = "demo-small"
complex = "demo-small"
reasoning = "demo-small"
[ledger]
path = "{folder}/front.sqlite"
"""


def serving(folder: str, *options: str) -> AbstractContextManager[list[str]]:
    """``pointsman serve`` on a free port, with a state of its own."""
    environment = os.environ | {"XDG_STATE_HOME": folder, "PYTHONUNBUFFERED": "1"}
    return announced("Pointsman listens on ", *options, env=environment)


def url_of(said: list[str]) -> str:
    """The address that a gateway has printed."""
    return said[-1].split()[3].rstrip(".")


def results_of(tool: str, url: str, kind: str) -> Results:
    """Result and complaints of each test."""
    command = [tool, "-u", f"{url}/v1", "-k", "any", "-m", MODEL, "--format", kind, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return {result["id"]: (result["status"], result.get("errors", [])) for result in results}


def compare(caller: str, spoken: str, direct: Results, through: Results) -> int:
    """Print what the gateway changes, and return how many tests it loses."""
    lost = [test for test in direct if direct[test][0] == "passed" != through[test][0]]
    other = [test for test in direct if direct[test] != through[test] and test not in lost]
    counts = Counter(status for status, _ in through.values())
    told = ", ".join(f"{counts[status]} {status}" for status in sorted(counts))
    print(f"{caller:10} {spoken:10} {told:22} lost: {', '.join(lost) or 'none'}; "
          f"otherwise: {', '.join(other) or 'none'}")  # fmt: skip
    for test in lost + other:
        print(f"    {test}: direct {direct[test]}, gateway {through[test]}")
    return len(lost)


def main() -> int:
    tool = sys.argv[1] if len(sys.argv) > 1 else "llm-comply"
    worse = 0
    print("caller     upstream   through the gateway")
    options = ("--demo", "--no-traffic")
    with tempfile.TemporaryDirectory() as temporary, serving(temporary, *options) as printed:
        upstream = url_of(printed)
        direct = {caller: results_of(tool, upstream, kind) for caller, kind in FORMATS.items()}
        for spoken in FORMATS:
            file = Path(temporary) / f"{spoken}.toml"
            file.write_text(
                FRONT.format(upstream=upstream, folder=temporary, spoken=spoken), encoding="utf-8"
            )
            with serving(temporary, "--config", str(file)) as said:
                for caller, kind in FORMATS.items():
                    worse += compare(caller, spoken, direct[caller], results_of(tool, url_of(said), kind))
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
