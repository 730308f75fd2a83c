"""Reading a tier profile from TOML, with errors that name the file, the line and the nearest valid key."""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pkgutil import get_data  # importlib.resources brings tempfile and half of os.path with it
from typing import Final

import msgspec

from pointsman.decoding import syntax_error
from pointsman.errors import ConfigError, LexiconError
from pointsman.evidence import Kind, PatternSet, Signal, SignalTable
from pointsman.tiers.profile import (
    Confidence,
    Dimension,
    Margin,
    Override,
    Step,
    TierProfile,
    VerificationPrompt,
)

__all__ = ["BUILTIN_PROFILES", "builtin_profile", "load_profile"]

#: Profiles that ship inside the package.
BUILTIN_PROFILES: Final = ("default", "seed")

_TABLES: Final[dict[str, tuple[type[msgspec.Struct], ...]]] = {
    "": (TierProfile,),
    "dimensions": (Dimension,),
    "escalation": (Confidence, Margin),
    "overrides": (Override,),
    "steps": (Step,),
    "verification": (VerificationPrompt,),
}


def builtin_profile(name: str) -> TierProfile:
    """A profile that ships with the package.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in BUILTIN_PROFILES:
        raise ConfigError(
            f'unknown tier profile "{name}"',
            hint=f"built in: {', '.join(BUILTIN_PROFILES)}; anything else is the path of a TOML file",
        )
    file = f"{name}.toml"
    text = (get_data("pointsman.tiers", f"profiles/{file}") or b"").decode()
    return load_profile(text, file)


def load_profile(text: str, source: str) -> TierProfile:
    """Read a profile from TOML text; ``source`` is the file's name in errors.

    Raises:
        ConfigError: not TOML, an unknown or mistyped key, values that contradict each other, or a pattern
            that no linear-time engine takes.
    """
    try:
        profile = msgspec.convert(tomllib.loads(text), TierProfile)
    except tomllib.TOMLDecodeError as error:
        message, line = syntax_error(error, text)
        raise ConfigError(message, place=f"{source}:{line}") from None
    except msgspec.ValidationError as error:
        raise _explain(str(error), text, source) from None
    _check_patterns(profile, text, source)
    return profile


def _check_patterns(profile: TierProfile, text: str, source: str) -> None:
    for index, dimension in enumerate(profile.dimensions):
        own = (Signal(profile.name, dimension.name, pattern, Kind.REGEX) for pattern in dimension.patterns)
        try:
            PatternSet(SignalTable(own))
        except LexiconError as error:
            line = _line(text, ["dimensions", f"[{index}]", "patterns"])
            raise LexiconError(error.message, place=f"{source}:{line}", hint=error.hint) from None


def _explain(message: str, text: str, source: str) -> ConfigError:
    """Turn msgspec's ``… - at `$.dimensions[2].weight``` into a place and a hint."""
    what, _, at = message.partition(" - at `$")
    path = re.findall(r"\w+|\[\d+\]", at.rstrip("`"))
    unknown = re.search(r"unknown field `(.+?)`", what)
    if not unknown and path:
        return ConfigError(f"{what} at {'.'.join(path)}", place=f"{source}:{_line(text, path)}")
    if not unknown:
        return ConfigError(what, place=f"{source}:{_line_naming(what, text)}")
    key = unknown[1]
    table = next((part for part in reversed(path) if part in _TABLES), "")
    near = get_close_matches(key, [name for type_ in _TABLES[table] for name in type_.__struct_fields__], n=1)
    where = f" in [{table}]" if table else ""
    meant = f'; did you mean "{near[0]}"?' if near else ""
    return ConfigError(f'unknown key "{key}"{where}{meant}', place=f"{source}:{_line(text, [*path, key])}")


def _line_naming(what: str, text: str) -> int:
    """The line a message about the whole profile is about: the last of those that hold what it quotes."""
    lines = text.splitlines()
    found = [1]
    for word in re.findall(r'"([^"]+)"', what):
        for form in (f'name = "{word}"', f'"{word}"', word):
            at = next((number for number, line in enumerate(lines, 1) if form in line), 0)
            if at:
                found.append(at)
                break
    return max(found)


def _line(text: str, path: list[str]) -> int:
    """The line of the deepest part of a path that can be found; 1 when none can."""
    lines = text.splitlines()
    at = 0
    for name, following in zip(path, [*path, ""][1:], strict=True):
        if name.startswith("["):
            continue
        count = int(following[1:-1]) if following.startswith("[") else 0
        pattern = re.compile(rf"^\s*\[*{name}\]*\s*(=|$)|[{{,]\s*{name}\s*=|^\s*{name}\.")
        found = [index for index in range(at, len(lines)) if pattern.search(lines[index])]
        if not found:
            break
        at = found[min(count, len(found) - 1)]
    return at + 1
