"""Read ``pointsman.toml`` into a ``Config``, or report its errors with their lines."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from pointsman import catalogue
from pointsman.config._check import check, check_files
from pointsman.config.applications import application_at
from pointsman.config.convert import Converter, Problem
from pointsman.config.files import FoundFile, check_trust, of_project, read
from pointsman.config.serving import key_digest
from pointsman.config.shapes import Config
from pointsman.decoding import parse_toml, syntax_error
from pointsman.errors import ConfigError
from pointsman.tiers import BUILTIN_KINDS, BUILTIN_PROFILES, load_profile
from pointsman.toml_source import KeyPath, TomlSource
from pointsman.upstreams.port import ServerSpec, UpstreamSpec, caller_name
from pointsman.vocabulary import ModelSpec, Tier, WireFormat
from pointsman.wire.translate import translated_formats

__all__ = [
    "FILE_NAME",
    "AnyKey",
    "Loaded",
    "examine",
    "find",
    "find_named",
    "is_profile",
    "load",
    "provider",
    "users_file",
]

FILE_NAME: Final = "pointsman.toml"
_INIT: Final = "pointsman config init writes one"
#: Stands for a variable that is not set: an address, since `base_url` may be one too.
_UNUSED: Final = "http://unused"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What reading a file gave: a configuration, or everything wrong with it in order of lines."""

    config: Config | None
    errors: Sequence[ConfigError]
    file: Config | None = None  # the configuration table by table, with what is known of its models
    written: Config | None = None  # the same as it is written; both None with errors


class AnyKey(Mapping[str, str]):
    """The environment, in which no key is missing: for a policy that decides and sends nothing anywhere."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        """Take the environment: an empty one for a policy that another than the operator wrote."""
        self._env = env

    def __getitem__(self, name: str) -> str:
        return self._env.get(name, _UNUSED)

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


def is_profile(text: str) -> bool:
    """Distinguish a tier profile from a configuration. Invalid TOML is neither."""
    try:
        return not parse_toml(text).keys().isdisjoint({"name", "dimensions"})
    except tomllib.TOMLDecodeError:
        return False


def find(directory: Path | None = None, env: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file to read, if there is one: ``$POINTSMAN_CONFIG``, else the one here, else the user's.

    The one here is a ``FoundFile``, which is read only if it is trusted.
    """
    users = find_named(env)
    here = (directory or Path.cwd()) / FILE_NAME
    if env.get("POINTSMAN_CONFIG") or not here.is_file():
        return users
    return users if users is not None and users.samefile(here) else FoundFile(here)


def find_named(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file that the user chose, if there is one: ``$POINTSMAN_CONFIG``, else the user's own."""
    if named := env.get("POINTSMAN_CONFIG"):
        return Path(named)
    own = users_file(env)
    return own if own.is_file() else None


def users_file(env: Mapping[str, str] = os.environ) -> Path:
    """Return where the user's own configuration lies, or would (XDG base directories)."""
    return Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pointsman" / FILE_NAME


def load(
    file: Path,
    env: Mapping[str, str] = os.environ,
    *,
    text: str | None = None,
    only: Collection[str] | None = None,
) -> Config:
    """Return the configuration in a file, or in ``text`` in its place.

    Args:
        file: The file.
        env: Fills references.
        text: Its content; by default read from the file.
        only: Tables that are read, of a text that another than the operator may have written; default: all.

    Raises:
        ConfigError: the first mistake, with file, line and the nearest valid key.
    """
    loaded = examine(file, env, text=text, only=only)
    if loaded.config is None:
        raise loaded.errors[0]
    return loaded.config


def examine(
    file: Path,
    env: Mapping[str, str] = os.environ,
    *,
    text: str | None = None,
    only: Collection[str] | None = None,
) -> Loaded:
    """Read a file, or ``text`` in its place, and return every mistake in it; arguments as of ``load``.

    Of a file that was only found, nothing is run or filled in before it is trusted.
    """
    try:
        if text is None:
            text = read(file, hint=_INIT)
            check_trust(file, text)
        raw = parse_toml(text)
    except ConfigError as error:
        return Loaded(None, [error])
    except tomllib.TOMLDecodeError as error:
        return Loaded(None, [_syntax_error(file, text or "", error)])
    if only is not None:
        raw = {name: table for name, table in raw.items() if name in only}
    directory = Path(file).resolve().parent  # of a plain path: files that it names are no found ones
    converter = Converter(env, directory)
    faulty: list[_Faulty] = []
    written, problems = _converted(converter, raw, faulty)
    problems += check_files(converter.paths)
    try:
        tables = _with_verifier(_known(written))
    except ConfigError as error:
        return Loaded(None, [*_placed(problems, file, text), error])
    problems += _unexplained([*check(tables, directory), *_shadow(tables.shadow.policy)], faulty)
    if problems:
        return Loaded(None, _placed(problems, file, text))
    return Loaded(_linked(tables, file), [], tables, written)


class _Faulty(NamedTuple):
    """A key that was left out because of a problem."""

    path: KeyPath
    names: frozenset[str]  # in its path, and of what stands in it

    def explains(self, other: Problem) -> bool:
        """Whether a problem may be there only because the key was left out: it is beside it, or about it."""
        beside = self.path[:-1] or self.path
        return other.path[: len(beside)] == beside or any(f'"{name}"' in other.message for name in self.names)


def _unexplained(problems: Iterable[Problem], faulty: Sequence[_Faulty]) -> list[Problem]:
    """Problems for themselves; the names in a hint are not all that the file has where keys were left out."""
    found = [each for each in problems if not any(key.explains(each) for key in faulty)]
    return [
        replace(each, hint="") if faulty and each.hint.startswith("there are: ") else each for each in found
    ]


def _converted(
    converter: Converter, raw: dict[str, Any], faulty: list[_Faulty]
) -> tuple[Config, list[Problem]]:
    """Convert a file, its faulty keys taken out, so that the rest of it can be checked too."""
    problems: list[Problem] = []
    while (written := converter.struct(raw, Config, ())) is None:
        found = converter.problems[len(faulty) :]
        problems += _unexplained(found, faulty)
        faulty += [_taken(raw, each.path) for each in found]
    return written, problems


def _taken(raw: dict[str, Any], path: KeyPath) -> _Faulty:
    """Take a key out of a file, or the list that it is in."""
    *tables, key = (str(part) for part in takewhile(lambda part: isinstance(part, str), path))
    for name in tables:
        raw = raw.get(name, {})
    value = raw.pop(key, ())
    return _Faulty((*tables, key), frozenset((*tables, key, *(value if isinstance(value, dict) else ()))))


def _known(tables: Config) -> Config:
    """Fill unset fields of a model from the catalogue."""
    if not tables.models:
        return tables
    catalogues = catalogue.installed()
    models = {
        name: catalogue.filled(model, provider(tables.upstreams.get(model.upstream)), catalogues)
        for name, model in tables.models.items()
    }
    return msgspec.structs.replace(tables, models=models)


def _with_verifier(tables: Config) -> Config:
    """Name the first model of tier SIMPLE as the one that verifies, where the file names none."""
    tiers = tables.tiers
    if tiers.verify is None or tiers.verify.model:
        return tables
    verify = msgspec.structs.replace(tiers.verify, model=tiers.models.get(Tier.SIMPLE, ""))
    return msgspec.structs.replace(tables, tiers=msgspec.structs.replace(tiers, verify=verify))


def provider(upstream: UpstreamSpec | None) -> str:
    """Return the provider of an upstream's catalogue entries; empty for none."""
    if upstream is None:
        return catalogue.ANY
    return catalogue.provider_of(upstream.base_url) if upstream.provider is None else upstream.provider


def _shadow(file: Path | None) -> Iterator[Problem]:
    """Problems of the file of a shadow policy, which may be a profile or a configuration."""
    path = ("shadow", "policy")
    if file is None:
        return
    try:
        text = read(file, hint=_INIT)
        if is_profile(text):
            load_profile(text, str(file))
        elif "shadow" in parse_toml(text):
            yield Problem(path, f"{file} has a [shadow] of its own", "a policy on trial tries no other")
        else:
            for error in examine(file, AnyKey(), text=text).errors[:1]:
                yield Problem(path, error.message, error.hint)
    except ConfigError as error:
        yield Problem(path, error.message, error.hint)
    except tomllib.TOMLDecodeError as error:
        yield Problem(path, str(_syntax_error(file, text, error)))


def _linked(tables: Config, file: Path) -> Config:
    tiers, capabilities, upstreams = tables.tiers, tables.capabilities, tables.upstreams
    folder = file.resolve().parent
    if tiers.profile not in BUILTIN_PROFILES:
        tiers = msgspec.structs.replace(tiers, profile=str(folder / tiers.profile))
    if tiers.kinds not in BUILTIN_KINDS:
        tiers = msgspec.structs.replace(tiers, kinds=str(folder / tiers.kinds))
    if named := capabilities.application:
        capabilities = msgspec.structs.replace(capabilities, application=application_at(named, folder))
    return msgspec.structs.replace(
        tables,
        tiers=tiers,
        ledger=msgspec.structs.replace(tables.ledger, path=of_project(tables.ledger.path, Path.cwd())),
        capabilities=capabilities,
        models={name: _placed_at(model, upstreams[model.upstream]) for name, model in tables.models.items()},
        server=_server(tables),
        source=str(file),
    )


def _server(tables: Config) -> ServerSpec:
    """How the gateway listens: nothing of the keys of both tables but their digests and names."""
    listed = tuple(map(key_digest, tables.server.written_keys))
    named = [(name, each) for name, key in tables.keys.items() for each in (key.sha256, *key.more_sha256)]
    names = (*map(caller_name, listed), *(name for name, _ in named)) if named else ()
    keys = (*listed, *(bytes.fromhex(digest) for _, digest in named))
    return msgspec.structs.replace(tables.server, written_keys=(), keys=keys, names=names)


def _placed_at(model: ModelSpec, upstream: UpstreamSpec) -> ModelSpec:
    translated = translated_formats(upstream.formats) if upstream.translate else frozenset[WireFormat]()
    return msgspec.structs.replace(model, formats=upstream.formats, translated=translated)


def _syntax_error(file: Path, text: str, error: tomllib.TOMLDecodeError) -> ConfigError:
    message, line = syntax_error(error, text)
    return ConfigError(message, place=f"{file}:{line}")


def _placed(problems: Sequence[Problem], file: Path, text: str) -> list[ConfigError]:
    source = TomlSource(text, str(file))
    return [
        ConfigError(problem.message, place=source.at(problem.path), hint=problem.hint)
        for problem in sorted(problems, key=lambda problem: (source.line(problem.path), problem.message))
    ]
