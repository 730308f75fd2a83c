"""Write where the files of a folder come from: ``python scripts/provenance.py dist``.

An in-toto statement with a SLSA provenance predicate (https://slsa.dev/spec/v1.0/provenance): the digests of
each file and of the locked requirements, and the commit. It is not signed; who publishes the files signs it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
NAME: Final = "provenance.intoto.jsonl"
_LOCKED: Final = ("pyproject.toml", "requirements/run.txt", "requirements/dist.txt")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def _digest(file: Path) -> dict[str, str]:
    return {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def statement(folder: Path) -> dict[str, Any]:
    """Return the statement about every file in a folder."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != NAME)
    commit, is_changed = _git("rev-parse", "HEAD"), bool(_git("status", "--porcelain"))
    source = {"uri": "git+file://pointsman", "digest": {"gitCommit": commit}}
    locked = [{"uri": name, "digest": _digest(ROOT / name)} for name in _LOCKED]
    definition = {
        "buildType": "make dist",
        "externalParameters": {"command": "make dist", "source": source},
        "internalParameters": {"python": platform.python_version(), "uncommittedChanges": is_changed},
        "resolvedDependencies": [source, *locked],
    }
    details = {"builder": {"id": f"local:{platform.system().lower()}-{platform.machine()}"}}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": _digest(file)} for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {"buildDefinition": definition, "runDetails": details},
    }


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / NAME).write_text(json.dumps(statement(folder)) + "\n", encoding="utf-8")
    print(*sorted(file.name for file in folder.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
