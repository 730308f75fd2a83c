"""The code blocks of the founding documents, read where they stand and executed.

The documents are no part of the project: they lie beside a checkout, in ``shared/seeds``, or are absent.
Blocks are known by the heading above them and their place under it. Nothing of their text is kept here.
"""

import ast
import asyncio
import inspect
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, Final, Literal

import pytest

SHARED: Final = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[3] / "shared"))
SEEDS: Final = SHARED / "seeds"

_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```", re.MULTILINE | re.DOTALL
)
_DIRECTIVE: Final = re.compile(
    r"^(?P<indent> *)\.\. code-block:: (?P<language>\w+)\n\n(?P<text>(?:(?P=indent) +\S.*\n|\s*\n)+)",
    re.MULTILINE,
)
_MARKDOWN_HEADING: Final = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
#: A line underlined, or a line that is bold and nothing else.
_HEADING: Final = re.compile(r"^(?:\*\*(?P<bold>.+?):?\*\*|(?P<title>\S.*)\n[-=]{4,})$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One block of code of a document."""

    document: str
    heading: str
    number: int  # among the blocks under its heading, from 1
    language: str
    text: str

    @property
    def key(self) -> str:
        """How tests and docs/decisions/0135 name it."""
        return self.heading if self.number == 1 else f"{self.heading} ({self.number})"


@cache
def blocks(document: str) -> tuple[Block, ...]:
    """Every block of a document, in order; skips the test where the documents are absent."""
    path = SEEDS / document
    if not path.is_file():
        pytest.skip(f"the founding documents are not beside this checkout: {path}")
    text = path.read_text(encoding="utf-8")
    return tuple(_blocks(document, text))


def _blocks(document: str, text: str) -> Iterator[Block]:
    fence, heading = (_FENCE, _MARKDOWN_HEADING) if document.endswith(".md") else (_DIRECTIVE, _HEADING)
    found = list(fence.finditer(text))
    inside = [range(*match.span()) for match in found]
    titles = [
        (match.start(), next(filter(None, match.groups())))
        for match in heading.finditer(text)
        if not any(match.start() in span for span in inside)
    ]
    seen: Counter[str] = Counter()
    for match in found:
        title = next((name for at, name in reversed(titles) if at < match.start()), "")
        seen[title] += 1
        yield Block(document, title, seen[title], match["language"], textwrap.dedent(match["text"]))


def block(document: str, key: str) -> Block:
    """One block by its key."""
    return next(each for each in blocks(document) if each.key == key)


def keys(document: str) -> list[str]:
    """The keys of a document's blocks, in order."""
    return [each.key for each in blocks(document)]


def execute(each: Block, names: Mapping[str, Any]) -> dict[str, Any]:
    """Execute a block with ``names`` known, and return what it leaves; ``"return"`` is what it returned,
    ``"value"`` what a lone expression is worth.

    A block that returns, or breaks off, as a part of a function's body does is executed as one.
    """
    namespace = {"__name__": "founding", **names}
    if code := _compiled(each, "eval"):
        namespace["value"] = eval(code, namespace)
    elif code := _compiled(each, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        coroutine = eval(code, namespace)  # None where the block awaits nothing
        if inspect.iscoroutine(coroutine):
            asyncio.run(coroutine)
    else:
        exec(compile(_as_function(each.text), each.key, "exec", dont_inherit=True), namespace)
        namespace["return"] = asyncio.run(namespace["_block"]())
    return namespace


def _compiled(each: Block, mode: Literal["eval", "exec"], flags: int = 0) -> CodeType | None:
    try:
        code: CodeType = compile(each.text, each.key, mode, flags, dont_inherit=True)
    except SyntaxError:
        return None
    return code


def _as_function(text: str) -> str:
    return f"async def _block():\n{textwrap.indent(text, '    ')}"
