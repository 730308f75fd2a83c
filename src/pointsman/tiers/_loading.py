"""Reading a tier profile from TOML, with errors that name the file, the line and the nearest valid key."""

from __future__ import annotations

import tomllib
from pkgutil import get_data  # importlib.resources brings tempfile and half of os.path with it
from typing import Final

import msgspec

from pointsman.decoding import syntax_error
from pointsman.errors import ConfigError, LexiconError, did_you_mean
from pointsman.evidence import Kind, PatternSet, Signal, SignalTable
from pointsman.tiers.profile import (
    Confidence,
    Dimension,
    Margin,
    Override,
    Saturation,
    Step,
    TierProfile,
    VerificationPrompt,
)
from pointsman.toml_source import TomlSource, path_in

#: Profiles that ship inside the package.
BUILTIN_PROFILES: Final = ("default", "seed")

_TABLES: Final[dict[str, tuple[type[msgspec.Struct], ...]]] = {
    "": (TierProfile,),
    "dimensions": (Dimension,),
    "escalation": (Confidence, Margin),
    "overrides": (Override,),
    "saturation": (Saturation,),
    "steps": (Step,),
    "verification": (VerificationPrompt,),
}


#: Keys that are no longer a profile's, and where they are.
_MOVED: Final = {("verification", "timeout_ms"): "timeout_ms in [tiers.verify] of pointsman.toml"}


def builtin_profile(name: str) -> TierProfile:
    """A profile that ships with the package.

    Raises:
        ConfigError: there is no profile of that name.
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
    toml = TomlSource(text, source)
    try:
        profile = msgspec.convert(tomllib.loads(text), TierProfile)
    except tomllib.TOMLDecodeError as error:
        message, line = syntax_error(error, text)
        raise ConfigError(message, place=f"{source}:{line}") from None
    except msgspec.ValidationError as error:
        raise _explain(str(error), toml) from None
    _check_patterns(profile, toml)
    return profile


def _check_patterns(profile: TierProfile, source: TomlSource) -> None:
    for index, dimension in enumerate(profile.dimensions):
        for number, pattern in enumerate(dimension.patterns):
            own = Signal(profile.name, dimension.name, pattern, Kind.REGEX)
            try:
                PatternSet(SignalTable([own]))
            except LexiconError as error:
                place = source.at(("dimensions", index, "patterns", number))
                raise LexiconError(error.message, place=place, hint=error.hint) from None


def _explain(message: str, source: TomlSource) -> ConfigError:
    """Turn msgspec's message into a place and a hint."""
    what, path = path_in(message)
    if "unknown field" not in what:
        if not path:
            return ConfigError(what, place=f"{source.name}:{source.line_naming(what)}")
        shown = ".".join(f"[{part}]" if isinstance(part, int) else str(part) for part in path)
        return ConfigError(f"{what} at {shown}", place=source.at(path))
    *above, key = path
    table = next((part for part in reversed(above) if isinstance(part, str) and part in _TABLES), "")
    where = f" in [{table}]" if table else ""
    if moved := _MOVED.get((table, str(key))):
        return ConfigError(f'"{key}"{where} is now {moved}', place=source.at(path))
    meant = did_you_mean(str(key), (name for type_ in _TABLES[table] for name in type_.__struct_fields__))
    return ConfigError(f'unknown key "{key}"{where}{meant}', place=source.at(path))
