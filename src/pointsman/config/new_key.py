"""Makes the key of a caller, and the configuration that holds its hash."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from pointsman.config.edit import set_value, write_file
from pointsman.config.files import read
from pointsman.config.load import AnyKey, examine, load
from pointsman.config.serving import KEY_NAME
from pointsman.errors import ConfigError
from pointsman.upstreams.port import hash_key

__all__ = ["NewKey", "new_key", "write_checked", "write_key"]

#: Random bytes of a key, and how it begins: a scanner of repositories can look for it.
_BYTES: Final = 32
_PREFIX: Final = "pm-"


class NewKey(NamedTuple):
    """A key that was made. It is shown once; the configuration holds its hash."""

    name: str
    team: str
    key: str
    sha256: str

    @property
    def table(self) -> str:
        """The table of the configuration."""
        header = self.name if "." not in self.name else json.dumps(self.name)
        lines = [f"[keys.{header}]", f'sha256 = "{self.sha256}"']
        return "\n".join([*lines, f"team = {json.dumps(self.team)}"] if self.team else lines) + "\n"


def new_key(name: str, team: str = "") -> NewKey:
    """Make a key.

    Raises:
        ConfigError: the name cannot name one.
    """
    if not re.fullmatch(KEY_NAME, name):
        hint = "letters, digits, '.', '_' and '-', at most 64"
        raise ConfigError(f'"{name}" cannot name a key', hint=hint)
    key = _PREFIX + secrets.token_urlsafe(_BYTES)
    return NewKey(name, team, key, hash_key(key).hex())


def write_key(file: Path, made: NewKey) -> None:
    """Add the hash to a configuration file. A name that is there gets a further key: both are valid.

    Raises:
        ConfigError: the configuration would be wrong; it stays as it is.
    """
    text, keys = read(file), load(file, AnyKey()).keys
    if made.name not in keys:
        separator = "" if not text or text.endswith("\n") else "\n"
        text = f"{text}{separator}\n{made.table}"
    elif made.team and made.team != keys[made.name].team:
        hint = "a further key of a name has the name's team"
        raise ConfigError(f'"{made.name}" has another team', hint=hint)
    else:
        more = json.dumps([*keys[made.name].more_sha256, made.sha256])
        text = set_value(text, ("keys", made.name, "more_sha256"), more)
    write_checked(file, text)


def write_checked(file: Path, text: str) -> None:
    """Write a configuration, unless it would be wrong.

    Raises:
        ConfigError: it would.
    """
    errors = examine(file, AnyKey(), text=text).errors
    if errors:
        raise errors[0]
    write_file(file, text)
