"""aider: ``.aider.chat.history.md`` in every project; tokens and costs are rounded, in prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pointsman.audit.session import Certainty, Request, Session, ToolUse, Usage, cut
from pointsman.audit.sources.base import Home, Log
from pointsman.errors import PointsmanError
from pointsman.vocabulary import Purpose

__all__ = ["Aider"]

_FILE: Final = ".aider.chat.history.md"
#: Folders below the home directory that are looked into, and how deep: a home may hold millions of files.
_DEPTH: Final = 5
_MOST_FOLDERS: Final = 20_000
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build", "Library"})

_STARTED: Final = "# aider chat started at "
_TOKENS: Final = re.compile(
    r"> Tokens: (?P<sent>[\d.,]+[kM]?) sent"
    r"(?:, (?P<written>[\d.,]+[kM]?) cache write)?(?:, (?P<read>[\d.,]+[kM]?) cache hit)?"
    r", (?P<received>[\d.,]+[kM]?) received\.(?: Cost: \$(?P<cost>[\d.,]+) message)?"
)
_MODEL: Final = re.compile(r"> (?:Main model|Model|Architect model): (\S+)")
_VERSION: Final = re.compile(r"> Aider v(\S+)")
_UNIT: Final = {"k": 1_000, "M": 1_000_000}


class Aider:
    """Reads the chat histories of all projects below the home directory."""

    name: Final = "aider"
    versions: Final = "0.86.2"

    def places(self, home: Home) -> tuple[Path, ...]:
        """The home directory: every project may have a history."""
        return (home.path / "**" / _FILE,)

    def find(self, home: Home) -> Iterator[Log]:
        """Yield one log per project, without hidden folders and those of dependencies."""
        left = _MOST_FOLDERS
        folders = [(home.path, 0)]
        while folders and left:
            folder, depth = folders.pop()
            left -= 1
            try:
                inside = sorted(folder.iterdir())
            except OSError:
                continue  # nobody's project
            for each in inside:
                if each.name == _FILE:
                    yield Log(self.name, (each,))
                elif depth < _DEPTH and each.name not in _SKIPPED and not each.name.startswith("."):
                    folders += [(each, depth + 1)] if each.is_dir() and not each.is_symlink() else []

    def read(self, log: Log) -> Iterator[Session]:
        """Yield one session per start of the program.

        Raises:
            PointsmanError: the file cannot be read.
        """
        (file,) = log.files
        chat: _Chat | None = None
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.startswith(_STARTED):
                        if chat is not None and chat.requests:
                            yield chat.session()
                        chat = _Chat(file, number, line.removeprefix(_STARTED).strip())
                    elif chat is not None:
                        chat.take(line.rstrip())
        except OSError as error:
            raise PointsmanError(f"cannot read {file}: {error.strerror or error}") from error
        if chat is not None and chat.requests:
            yield chat.session()


class _Chat:
    """One start of the program."""

    def __init__(self, file: Path, number: int, started: str) -> None:
        self._file, self._id = file, f"{file.parent}@{started}#{number}"
        self._at = _local(started)
        self._model = self._version = ""
        self._prompt: list[str] = []
        self._answer: list[str] = []
        self.requests: list[Request] = []

    def take(self, line: str) -> None:
        """Take the next line."""
        if line.startswith("#### "):
            self._prompt.append(line[5:].strip())
        elif not line.startswith("> "):
            self._answer.append(line)
        elif found := _TOKENS.match(line):
            self._answered(found)
        elif found := _MODEL.match(line):
            self._model = found[1]
        elif found := _VERSION.match(line):
            self._version = found[1]
        elif line.startswith("> Applied edit to "):
            self._edited(line, failed=False)
        elif "SEARCH/REPLACE block" in line and "failed to match" in line:
            self._edited(line, failed=True)

    def _answered(self, found: re.Match[str]) -> None:
        text = "\n".join(self._answer).strip()
        prompt = cut("\n".join(self._prompt)) if self._prompt else None
        cost = found["cost"]
        self.requests.append(
            Request(
                id=f"{self._id}:{len(self.requests)}",
                at=self._at,
                model=self._model.partition("/")[2] or self._model,
                provider=self._model.partition("/")[0] if "/" in self._model else "",
                purpose=Purpose.TOOL_ITERATION if prompt is None else Purpose.MESSAGE,
                prompt=prompt,
                text=cut(text),
                text_length=len(text),
                usage=_usage(found),
                cost=float(cost.replace(",", "")) if cost else None,
            )
        )
        self._prompt, self._answer = [], []

    def _edited(self, line: str, *, failed: bool) -> None:
        if not self.requests:
            return
        text = line.removeprefix("> ").strip()
        last = self.requests[-1]
        call = ToolUse(f"{last.id}:{len(last.calls)}", "edit", "{}", text, failed, len(text), self._at)
        self.requests[-1] = replace(last, calls=(*last.calls, call))

    def session(self) -> Session:
        """The session so far."""
        return Session(
            id=self._id,
            client=Aider.name,
            version=self._version,
            project=str(self._file.parent),
            files=(str(self._file),),
            requests=tuple(self.requests),
            not_logged=("commit messages", "summaries"),
        )


def _usage(found: re.Match[str]) -> Usage:
    """The counts: "sent" is the whole prompt; they are rounded to three digits."""
    sent, _ = _number(found["sent"])
    received, more = _number(found["received"])
    cached, written = (_number(found[name] or "0")[0] for name in ("read", "written"))
    return Usage(
        input_tokens=max(sent, cached + written),
        cached_tokens=cached,
        written_tokens=written,
        output_tokens=received,
        output_at_most=received + more,
        input_certainty=Certainty.ESTIMATED,
        output_certainty=Certainty.ESTIMATED,
    )


def _number(text: str) -> tuple[int, int]:
    """A rounded number, and by how much it may be too low."""
    digits, unit = text.rstrip("kM").replace(",", ""), _UNIT.get(text[-1], 1)
    _, _, places = digits.partition(".")
    return round(float(digits) * unit), unit // 10 ** len(places) // 2


def _local(started: str) -> float:
    try:
        return datetime.fromisoformat(started).timestamp()  # local time, without a zone
    except ValueError:
        return 0.0
