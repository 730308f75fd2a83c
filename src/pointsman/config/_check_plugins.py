"""Checks of names that an installed package may offer: encoders, session stores, schemes of addresses."""

from __future__ import annotations

from collections.abc import Iterator

from pointsman.config.convert import Problem
from pointsman.config.shapes import SESSION_STORES, File
from pointsman.encoders import ENCODERS, is_encoder
from pointsman.errors import did_you_mean
from pointsman.plugins import names


def is_plugin(base_url: str) -> bool:
    """Whether an installed package offers the client for the scheme of an upstream's address."""
    scheme, separator, _ = base_url.partition(":")
    return bool(separator) and scheme not in {"http", "https"} and scheme in names("upstream")


def check_plugins(file: File) -> Iterator[Problem]:
    """Yield the unknown names."""
    named = (
        (("domains", "examples"), "encoder", file.domains.examples),
        (("capabilities", "encoder"), "encoder", file.capabilities.encoder),
    )
    for path, kind, name in named:
        if not is_encoder(name):
            yield _unknown(path, kind, name, ["none", *ENCODERS, *names("encoder")])
    store = file.sessions.store
    if store not in SESSION_STORES and store not in (offered := names("store")):
        yield _unknown(("sessions", "store"), "session store", store, [*SESSION_STORES, *offered])


def _unknown(path: tuple[str, str], kind: str, name: str, known: list[str]) -> Problem:
    near = did_you_mean(name, known)
    return Problem(path, f'unknown {kind} "{name}"{near}', "" if near else f"there are: {', '.join(known)}")
