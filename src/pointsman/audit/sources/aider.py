"""aider: ``.aider.chat.history.md`` in every project; tokens and costs are rounded, in prose."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pointsman.audit.session import Certainty, Request, Session, ToolUse, Usage, cut
from pointsman.audit.sources.base import Home, Log, answered, seconds
from pointsman.errors import PointsmanError

__all__ = ["Aider"]

#: Folders below the home directory that are looked into, and how deep: a home may hold millions of files.
_DEPTH: Final = 5
_MOST_FOLDERS: Final = 20_000
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build", "Library"})

_STARTED: Final = "# aider chat started at "
#: A number, which is short: one of hundreds of digits is none that aider wrote.
_DIGITS: Final = r"\d[\d,]{0,15}(?:\.\d{1,20})?"
_TOKENS: Final = re.compile(
    rf"> Tokens: (?P<sent>{_DIGITS}[kM]?) sent"
    rf"(?:, (?P<written>{_DIGITS}[kM]?) cache write)?(?:, (?P<read>{_DIGITS}[kM]?) cache hit)?"
    rf", (?P<received>{_DIGITS}[kM]?) received\.(?: Cost: \$(?P<cost>{_DIGITS}) message)?"
)
_MODEL: Final = re.compile(r"> (?:Main model|Model|Architect model): (\S+)")
_VERSION: Final = re.compile(r"> Aider v(\S+)")
#: Characters of a line that are read at once, and of an answer's lines that are kept.
_LONGEST: Final = 1_000_000
_UNIT: Final = {"k": 1_000, "M": 1_000_000}


class Aider:
    """Reads the chat histories of all projects below the home directory."""

    FILE: Final = ".aider.chat.history.md"
    name: Final = "aider"
    versions: Final = "0.86.2"

    def places(self, home: Home) -> tuple[Path, ...]:
        """The home directory: every project may have a history."""
        return (home.path / "**" / self.FILE,)

    def find(self, home: Home) -> Iterator[Log]:
        """Yield one log per project, without hidden folders and those of dependencies.

        A history that another user wrote, or that git tracks, came with a clone: it is left out and named.
        """
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
                if each.name == self.FILE:
                    yield from (Log(self.name, (file,)) for file in _own(each, home))
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
                for number, line in enumerate(iter(lambda: lines.readline(_LONGEST), ""), start=1):
                    if line.startswith(_STARTED):
                        if chat is not None and (chat.requests or chat.unread):
                            yield chat.session()
                        chat = _Chat(file, number, line.removeprefix(_STARTED).strip())
                    elif chat is not None:
                        chat.take(line.rstrip())
        except OSError as error:
            raise PointsmanError(f"cannot read {file}: {error.strerror or error}") from error
        if chat is not None and (chat.requests or chat.unread):
            yield chat.session()


def _own(file: Path, home: Home) -> list[Path]:
    """The file, if the owner of the home directory wrote it; else nothing, and a note."""
    try:
        found = home.regular([file])
        others = bool(found) and file.stat().st_uid != home.path.stat().st_uid
        tracked = bool(found) and not others and _is_tracked(file, home.path)
    except OSError as error:
        home.left_out.append(f"left out: {file}: {error.strerror or error}")
        return []
    if others or tracked:
        why = "another user owns it" if others else "git tracks it, so anyone may have written it"
        home.left_out.append(f"left out: {file}: {why} (name the file to read it)")
        return []
    return found


def _is_tracked(file: Path, top: Path) -> bool:
    """Whether the index of the repository around a file has it. Git is not run: it may run other programs."""
    for folder in file.parents:
        git = folder / ".git"
        if git.is_file():  # of a submodule or a second work tree
            with git.open(encoding="utf-8", errors="replace") as opened:
                git = folder / opened.readline(4_096).removeprefix("gitdir:").strip()
        if git.is_dir():
            name = file.relative_to(folder).as_posix().encode(errors="surrogateescape")
            indexes = [each for each in (git / "index", *git.glob("sharedindex.*")) if each.is_file()]
            entry = _entry(git) if indexes else 0
            return any(_lists(each.read_bytes(), name, entry) for each in indexes)
        if folder == top:
            break
    return False


_FLAGS: Final = 2  # bytes of flags, the last ones of an entry of git's index before its name
_EXTENDED: Final = 0x4000  # two more bytes of flags follow


def _entry(git: Path) -> int:
    """Bytes of an entry of the index before its name: it holds a hash of 20 bytes, or of 32."""
    common = git / "commondir"  # a second work tree has no configuration of its own
    folder = git / common.read_text(errors="replace").strip() if common.is_file() else git
    config = folder / "config"
    said = config.read_bytes().lower() if config.is_file() else b""
    return 74 if b"objectformat" in said and b"sha256" in said else 62


def _lists(index: bytes, name: bytes, entry: int) -> bool:
    """Whether an index of git has a path; True if it cannot be read. Source: git's index-format."""
    try:
        version, count = struct.unpack_from(">4xLL", index)
        at, path = 12, b""
        for _ in range(count):
            (flags,) = struct.unpack_from(">H", index, at + entry - _FLAGS)
            start = at + entry + (2 if flags & _EXTENDED else 0)
            if version == 4:  # a name is what it has more than the one before
                dropped, start = _offset(index, start)
                path = path[: len(path) - dropped]
            else:
                path = b""
            end = index.index(b"\0", start)
            path += index[start:end]
            if path == name:
                return True
            at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
    except (struct.error, IndexError, ValueError):
        return True
    return False


def _offset(index: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and the offset of its end."""
    value = index[at] & 127
    while index[at] & 128:
        at += 1
        value = (value + 1) << 7 | (index[at] & 127)
    return value, at + 1


class _Chat:
    """One start of the program."""

    def __init__(self, file: Path, number: int, started: str) -> None:
        self._file, self._id = file, f"{file.parent}@{started}#{number}"
        self._at = seconds(started)  # local time, without a zone
        self._model = self._version = ""
        self._prompt: list[str] = []
        self._answer: list[str] = []
        self._kept = 0  # characters of both
        self.unread = 0  # requests whose counts cannot be read
        self.requests: list[Request] = []

    def take(self, line: str) -> None:
        """Take the next line."""
        said = line.startswith("#### ")
        if said or not line.startswith("> "):
            self._kept += len(line)
            if self._kept <= _LONGEST:
                (self._prompt if said else self._answer).append(line[5:].strip() if said else line)
        elif found := _TOKENS.match(line):
            self._answered(found)
        elif line.startswith("> Tokens: "):
            self.unread += 1
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
            answered(
                f"{self._id}:{len(self.requests)}",
                _usage(found),
                prompt,
                [text],
                at=self._at,
                model=self._model.partition("/")[2] or self._model,
                provider=self._model.partition("/")[0] if "/" in self._model else "",
                cost=float(cost.replace(",", "")) if cost else None,
            )
        )
        self._prompt, self._answer, self._kept = [], [], 0

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
            notes=(f"left out: {self._id}: requests with unreadable tokens: {self.unread}",)
            if self.unread
            else (),
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
