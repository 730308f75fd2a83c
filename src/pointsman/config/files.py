"""Files that the configuration names, and trust in a configuration that was only found."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pointsman.decoding import parse_toml
from pointsman.errors import ConfigError
from pointsman.toml_source import KeyPath, TomlSource

__all__ = [
    "PROJECT",
    "FoundFile",
    "TrustedFile",
    "check_trust",
    "effects",
    "is_trusted",
    "names_code",
    "of_project",
    "read",
    "record_of",
    "revoke",
    "state_file",
    "trust",
    "trusted_files",
]


#: Bytes: a learned router of a hundred thousand weights has 5 MB. A device has no end.
_MOST: Final = 64 << 20


def read(file: Path, *, hint: str = "") -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read; ``hint`` is the way out.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST + 1)
    except (OSError, ValueError) as error:  # a NUL in its name
        raise ConfigError(f"cannot read {file}: {getattr(error, 'strerror', error)}", hint=hint) from None
    if len(data) > _MOST:
        raise ConfigError(f"larger than {_MOST >> 20} MiB", place=str(file))
    try:
        text = data.decode("utf-8-sig")  # Windows editors begin a file with a mark
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8", place=str(file)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


# Where files of ours lie by default.

#: Stands in a configured path for the project of the working directory.
PROJECT: Final = "{project}"


def state_file(name: str) -> Path:
    """Return the default path of a file: the user's state directory (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "pointsman" / name


def of_project(path: Path, directory: Path) -> Path:
    """Return a path with ``{project}`` filled in: the name of the project's folder, and a hash of its path.

    The folder is the nearest one upwards that holds ``.git``, else the directory itself.
    """
    if PROJECT not in str(path):
        return path
    at = directory.resolve()
    folder = next((each for each in (at, *at.parents) if (each / ".git").exists()), at)
    digits = blake2b(str(folder).encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return Path(str(path).replace(PROJECT, f"{folder.name or 'root'}-{digits}"))


# Trust in a configuration that was found in the working directory, by its path and its digest.
#
# Whoever can write into a repository can put a ``pointsman.toml`` there. One that a person has named, by
# ``--config`` or ``POINTSMAN_CONFIG``, is read as it is, and so is one in the user's own folder. One that was
# only found names neither code nor ``${…}`` before ``pointsman trust`` has recorded it, and again after each
# change that no command of Pointsman made.


if TYPE_CHECKING:
    _OwnPath = Path
else:
    _OwnPath = type(Path())  # before Python 3.12 a subclass of Path itself has no flavour


REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
#: Keys of files that are written, within their tables: lines that a shell reads later are code.
_WRITTEN: Final = (("path",), ("jsonl",))
#: How an effect begins that is code.
_RUN: Final = "run "
#: Effects that an error lists, besides code; a file may have thousands.
_LISTED: Final = 5


class FoundFile(_OwnPath):
    """A configuration that was found in the working directory, not named."""


class TrustedFile(NamedTuple):
    """A file that was recorded."""

    path: str
    digest: str  # SHA-256 of its text, and of the text of the shadow policy that it names
    is_current: bool  # whether the file is still the one that was recorded


class _Effect(NamedTuple):
    """What reading or using a file would do beyond deciding."""

    path: KeyPath
    what: str


def check_trust(file: Path, text: str) -> None:
    """Refuse a file that was only found, has not been recorded, and names code or the environment.

    Raises:
        ConfigError: names the file's effects, and how to trust it.
    """
    if not isinstance(file, FoundFile):
        return
    found = effects(file, text)
    recorded = _recorded(file)
    if not found or recorded == _digest(file, text):
        return
    why = "has changed since it was trusted" if recorded else "is not trusted"
    code = sum(each.startswith(_RUN) for each in found)
    listed = found[: max(_LISTED, code)]
    more = f", and {len(found) - len(listed)} more" if len(found) > len(listed) else ""
    who = "made the change" if recorded else "know who wrote it"
    raise ConfigError(
        f"{file} {why}: it would {', '.join(listed)}{more}",
        hint=f"if you {who}: pointsman trust; a file that --config names is always trusted",
    )


def effects(file: Path, text: str) -> list[str]:
    """Return the effects of a configuration beyond deciding, with the lines: the code that it runs first."""
    source, folder = TomlSource(text, file.name), _absolute(file).parent
    found = {effect.what: f"{effect.what} (line {source.line(effect.path)})" for effect in _in(text, folder)}
    shadow = _shadow(file, text)
    if shadow is not None and (more := next(_in(shadow[1], folder), None)):
        found[more.what] = f"{more.what} ({shadow[0].name})"
    return sorted(found.values(), key=lambda each: not each.startswith(_RUN))


def trust(file: Path, text: str | None = None) -> None:
    """Record a file as it is, or as it will be with ``text``.

    Raises:
        ConfigError: it cannot be read, or the record cannot be written.
    """
    text = read(file) if text is None else text
    record = record_of(file)
    written = json.dumps({"path": str(_absolute(file)), "sha256": _digest(file, text)})
    try:
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = record.with_suffix(f".{os.getpid()}")
        partial.touch(mode=0o600)
        partial.write_text(written, encoding="utf-8")
        partial.replace(record)
    except OSError as error:
        raise ConfigError(
            f"cannot write {error.filename or record}: {error.strerror}",
            hint="XDG_STATE_HOME names another folder; or name the file by --config",
        ) from error


def is_trusted(file: Path) -> bool:
    """Whether a file is recorded as it is now."""
    recorded = _recorded(file)
    try:
        return bool(recorded) and recorded == _digest(file, read(file))
    except ConfigError:
        return False


def revoke(file: Path) -> bool:
    """Forget a file. Returns whether it was recorded."""
    try:
        record_of(file).unlink()
    except FileNotFoundError:
        return False
    return True


def trusted_files() -> list[TrustedFile]:
    """Return every file that is recorded, by path."""
    found = []
    for record in sorted(_folder().glob("*.json")):
        written = _read_record(record)
        if (path := written.get("path")) and (digest := written.get("sha256")):
            found.append(TrustedFile(path, digest, is_trusted(Path(path))))
    return sorted(found)


def record_of(file: Path) -> Path:
    """Return where a file is recorded: one file for each, so that two commands lose no record."""
    return _folder() / f"{hashlib.sha256(os.fsencode(_absolute(file))).hexdigest()}.json"


def _absolute(file: Path) -> Path:
    return Path(file).resolve()  # a plain path: what is built from it has been named by the file


def _folder() -> Path:
    return state_file("trust")


def _recorded(file: Path) -> str:
    """Return the digest under which a file is recorded; empty for none."""
    return _read_record(record_of(file)).get("sha256", "")


def _read_record(record: Path) -> Mapping[str, str]:
    try:
        written = json.loads(record.read_bytes())
    except (OSError, ValueError):
        return {}
    return written if isinstance(written, dict) else {}


def _digest(file: Path, text: str) -> str:
    shadow = _shadow(file, text)
    texts = [text] if shadow is None else [text, shadow[1]]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _shadow(file: Path, text: str) -> tuple[Path, str] | None:
    """Return the policy on trial, which may be a configuration that names code, and its text."""
    named = _parsed(text).get("shadow")
    policy = named.get("policy") if isinstance(named, dict) else None
    if not isinstance(policy, str):
        return None
    policy_file = _named(_absolute(file).parent, policy)
    if not _is_read(policy_file):
        return None
    with contextlib.suppress(ConfigError):
        return policy_file, read(policy_file)
    return None


def _in(text: str, folder: Path) -> Iterator[_Effect]:
    """Yield the effects of a text in this folder; none if it is no TOML."""
    tables = _parsed(text)
    for path, value in _leaves(tables, ()):
        if _is_code(path):
            yield _Effect(path, f"{_RUN}{value}")
        elif path == ("shadow", "policy") and isinstance(value, str) and not _is_read(_named(folder, value)):
            yield _Effect(path, f"read {value}")
        elif path == ("ledger", "url"):
            yield _Effect(path, "open the database of [ledger] url")  # libpq adds PGPASSWORD by itself
        elif path[-1] == "forward_auth" and value is True:
            yield _Effect(path, "send the credentials of callers to an upstream")
        elif path[1:] in _WRITTEN and isinstance(value, str) and not _is_within(folder, value):
            yield _Effect(path, f"write {value}")
        for name in REFERENCE.findall(value) if isinstance(value, str) else ():
            yield _Effect(path, f"use {name} of the environment")


def names_code(text: str) -> bool:
    """Whether a configuration may have Python run when it is loaded: itself, or as the policy on trial."""
    return any(_is_code(path) or path == ("shadow", "policy") for path, _ in _leaves(_parsed(text), ()))


def _is_code(path: KeyPath) -> bool:
    return path == ("capabilities", "application") or path[-1] == "entry_point"


def _named(folder: Path, named: str) -> Path:
    try:
        return folder / Path(named).expanduser()
    except RuntimeError:  # no such user
        return Path(named)


def _is_read(file: Path) -> bool:
    """Whether a file can be read to its end: it is none, or a regular one. A device may have no end."""
    return file.is_file() or not file.exists()


def _is_within(folder: Path, named: str) -> bool:
    """Whether a file that is written lies in the folder, and not among git's hooks."""
    if named == "-":
        return True
    try:
        written = _named(folder, named).resolve()
        return written.is_relative_to(folder) and ".git" not in written.relative_to(folder).parts
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL
        return False


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _leaves(member, (*path, key))
    elif isinstance(value, list):
        for place, member in enumerate(value):
            yield from _leaves(member, (*path, place))
    else:
        yield path, value


def _parsed(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError:  # whoever reads it says where
        return {}
