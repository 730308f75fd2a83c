"""Engines share what is dear to compile or to open: scanners, dimensions, tables. None holds what it read."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

import pytest

from pointsman import encoders, factory
from pointsman.catalogue import _update
from pointsman.evidence import Scanner, Signal, SignalTable
from pointsman.stores.pattern_cache import cache_directory, open_scanner
from pointsman.tiers import BUILTIN_PROFILES, TierProfile, _scorer, builtin_profile
from pointsman.tiers._scorer import CompiledDimension
from pointsman.tiers.profile import Dimension

__all__ = ["shared"]

#: Lexicons in use at once, a few megabytes each: the built-in profiles, with domains and without.
_KEPT = 8
_signals = TierProfile.signals
_open_table = encoders.StaticEncoder.__init__


@contextmanager
def shared() -> Iterator[None]:
    """Let engines share scanners, dimensions of built-in profiles, catalogues, and the encoder's table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factory, "open_scanner", _scanner)
        patch.setattr(TierProfile, "signals", _signals_of)
        patch.setattr(_scorer, "CompiledDimension", _compiled)
        patch.setattr(encoders.StaticEncoder, "__init__", _share_table)
        patch.setattr(_update, "decode", lru_cache(_KEPT)(_update.decode))
        yield


def _scanner(
    signals: Iterable[Signal],
    *,
    normalised_for: str = "",
    lowering: Container[str] = (),
    read_only: bool = False,
) -> Scanner:
    groups = cast("frozenset[str]", lowering)
    # Where nothing is written, an empty directory only costs an audit the seconds of compiling.
    directory = None if read_only else cache_directory()
    return _opened(tuple(signals), normalised_for, groups, read_only, directory)


@lru_cache(_KEPT)
def _opened(
    signals: tuple[Signal, ...],
    normalised_for: str,
    lowering: frozenset[str],
    read_only: bool,
    directory: Path | None,  # where compiled patterns lie: a test of an empty one compiles them
) -> Scanner:
    return open_scanner(
        signals, normalised_for=normalised_for, lowering=lowering, directory=directory, read_only=read_only
    )


def _signals_of(profile: TierProfile) -> Iterator[Signal]:
    name = _builtin(profile)
    return iter(_known(name)) if name else _signals(profile)


@cache
def _known(name: str) -> tuple[Signal, ...]:
    return tuple(_signals(builtin_profile(name)))


def _builtin(profile: TierProfile) -> str:
    """The built-in profile whose dimensions these are, unchanged; empty for others."""
    for name in BUILTIN_PROFILES:
        known = builtin_profile(name)
        if (
            profile.dimensions is known.dimensions
            and profile.name == name
            and profile.matching is known.matching
        ):
            return name
    return ""


def _compiled(profile: TierProfile, dimension: Dimension, table: SignalTable) -> CompiledDimension:
    name = _builtin(profile)
    if not name:
        return CompiledDimension(profile, dimension, table)
    return _dimension(name, profile.dimensions.index(dimension), table)


@lru_cache(_KEPT * 20)  # dimensions of a profile
def _dimension(name: str, place: int, table: SignalTable) -> CompiledDimension:
    profile = builtin_profile(name)
    return CompiledDimension(profile, profile.dimensions[place], table)


def _share_table(encoder: encoders.StaticEncoder) -> None:
    """Open the table once: its tokenizer takes a fifth of a second. It fails where the extra is missing."""
    encoders._package_folder("wordllama", extra="static")
    encoders._require("tokenizers", extra="static")
    vars(encoder).update(_table())


@cache
def _table() -> dict[str, Any]:
    opened = encoders.StaticEncoder.__new__(encoders.StaticEncoder)
    _open_table(opened)
    return vars(opened)
