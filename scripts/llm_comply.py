"""Nothing that passes directly against an upstream fails through the gateway, as llm-comply tests it.

    uv tool install llm-comply
    python scripts/llm_comply.py llm-comply

The upstream is the built-in demo, served by a gateway of its own; another gateway is put in front of it. The
demo passes every test (the tool skips those of reasoning, going by the name of the model), so that each
can be lost; the gateway in between must change no test's result and no test's complaint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FORMATS = {"chat": "openai-chat", "responses": "open-responses", "messages": "anthropic"}
MODEL = "demo-small"

FRONT = """
[upstreams.demo]
base_url = "{upstream}/v1"
formats = ["chat", "responses", "messages"]
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


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """``pointsman serve`` on a free port, with a state of its own."""
    command = [sys.executable, "-m", "pointsman", "serve", "--port", "0", *options]
    environment = os.environ | {"XDG_STATE_HOME": str(folder), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if line.startswith("Pointsman listens on "))
            yield line.split()[3].rstrip(".")
        finally:
            process.terminate()


def results_of(tool: str, url: str, kind: str) -> dict[str, tuple[str, list[str]]]:
    """Result and complaints of each test."""
    command = [tool, "-u", f"{url}/v1", "-k", "any", "-m", MODEL, "--format", kind, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return {result["id"]: (result["status"], result.get("errors", [])) for result in results}


def main() -> int:
    tool = sys.argv[1] if len(sys.argv) > 1 else "llm-comply"
    worse = 0
    with tempfile.TemporaryDirectory() as temporary, serving(Path(temporary), "--demo") as upstream:
        file = Path(temporary) / "pointsman.toml"
        file.write_text(FRONT.format(upstream=upstream, folder=temporary), encoding="utf-8")
        with serving(Path(temporary), "--config", str(file)) as front:
            for name, kind in FORMATS.items():
                direct, through = results_of(tool, upstream, kind), results_of(tool, front, kind)
                lost = [test for test in direct if direct[test][0] == "passed" != through[test][0]]
                other = [test for test in direct if direct[test] != through[test]]
                for where, results in (("direct", direct), ("gateway", through)):
                    counts = Counter(status for status, _ in results.values())
                    print(f"{name:10} {where:8} " + ", ".join(f"{counts[s]} {s}" for s in sorted(counts)))
                print(f"{name:10} lost: {', '.join(lost) or 'none'}; otherwise: {', '.join(other) or 'none'}")
                worse += len(lost)
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
