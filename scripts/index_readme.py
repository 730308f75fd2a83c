"""The README for a package index, which shows it without the files beside it: every link leads somewhere.

With the address of the repository links become absolute; without one they become their text, and pictures go.
``hatch_build.py`` calls it when a distribution is built (docs/notebook/0196).
"""

import re
from typing import Final

__all__ = ["for_index"]

_PICTURE: Final = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)\s]+\)\n*")
_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)")


def for_index(readme: str, repository: str = "") -> str:
    """Return the README with links that work where its neighbours are absent.

    Args:
        readme: Markdown with links relative to the repository.
        repository: Address of a tree of its files, without a slash at its end; empty where there is none.
    """
    if repository:
        absolute = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
        return absolute.sub(rf"]({repository}/\1)", readme)
    return _LINK.sub(r"\1", _PICTURE.sub("", readme))
