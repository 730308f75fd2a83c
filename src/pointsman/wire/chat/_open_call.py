"""A call of a stream of chat completions whose fragments are coming in."""

from __future__ import annotations

import re
from typing import Final

from pointsman.wire.chat._translation_answer import is_whole

__all__ = ["OpenCall"]

#: What tells where an object ends; an escape may be cut in two between fragments.
_MARKS: Final = re.compile(r'\\.|\\\Z|["{}]', re.DOTALL)


class OpenCall:
    """A call; each fragment of its arguments is looked at once, however often it is asked for their end."""

    __slots__ = ("_carried", "_closed", "_depth", "_in_text", "_looked", "_whole", "custom", "ended",
                 "id", "index", "name", "pieces", "started")  # fmt: skip

    def __init__(self, index: int, id_: str) -> None:
        self.index = index  # ours: never used again
        self.id = id_
        self.name = ""
        self.custom = False
        self.pieces: list[str] = []
        self.started = self.ended = False
        self._looked = self._depth = 0  # pieces looked at; objects open behind them
        self._carried = ""  # first half of an escape
        self._in_text = self._closed = self._whole = False

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a whole object, so that nothing can follow; none at all are whole too."""
        if not self.pieces:
            return True
        if self._looked < len(self.pieces):
            self._look("".join(self.pieces[self._looked :]))
        return self._whole

    @property
    def is_certain(self) -> bool:
        """Whether it is whole beyond doubt: free text, and no arguments at all, may have been cut off."""
        return not self.custom and bool(self.pieces) and self.is_whole

    def _look(self, new: str) -> None:
        self._looked = len(self.pieces)
        if self._closed:
            self._whole = self._whole and not new.strip(" \t\r\n")
            return
        text, self._carried = self._carried + new, ""
        for found in _MARKS.finditer(text):
            mark = found[0]
            if mark == '"':
                self._in_text = not self._in_text
            elif mark == "\\":
                self._carried = mark
            elif not self._in_text and mark in "{}":
                self._depth += 1 if mark == "{" else -1
                if self._depth <= 0:
                    self._closed = True
                    self._whole = is_whole("".join(self.pieces))
                    return
