"""The page of an audit that the documentation links as an example: docs/examples/audit.html.

    TZ=UTC python scripts/audit_example.py > docs/examples/audit.html

Its logs are invented (``tests/support/agent_logs.py``): a month of sessions of one person. A test compares
the parts of the page with those that this script prints.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from pointsman.cli import app
from support.agent_logs import month

#: Name of the home directory on the page, in place of a temporary one.
_HOME: Final = "/home/ana"


def page() -> str:
    """Return the page that ``pointsman audit --html`` writes about the invented logs."""
    with TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        month(home)
        file = Path(folder) / "audit.html"
        ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--html", str(file)])
        if ran.exit_code:
            raise SystemExit(ran.output)
        return file.read_text("utf-8").replace(f" --home {home}", "").replace(str(home), _HOME)


if __name__ == "__main__":
    sys.stdout.write(page())
