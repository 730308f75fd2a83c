"""Writes the generated part of a page of the docs between its markers."""

import sys
from pathlib import Path

__all__ = ["publish"]


def publish(page: Path, part: str) -> bool:
    """Put a part into a page between the markers, which are its first and its last line.

    With ``--check`` on the command line nothing is written.

    Returns:
        Whether ``--check`` found that the page differs: the exit status.
    """
    begin, *_, end = part.splitlines()
    text = page.read_text("utf-8")
    before, rest = text.split(begin)
    wanted = before + part + rest.split(end)[1]
    if "--check" in sys.argv[1:]:
        return wanted != text
    page.write_text(wanted, "utf-8")
    return False
