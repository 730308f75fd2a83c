"""What no single key shows: names that must exist, and settings that exclude each other."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

from pointsman.config.convert import Problem, did_you_mean
from pointsman.config.places import KeyPath
from pointsman.config.shapes import File
from pointsman.types import Tier, WireFormat
from pointsman.upstreams import DEMO_URL

__all__ = ["RESERVED", "check", "is_loopback"]

#: Model ids the gateway gives a meaning of its own.
RESERVED: Final = frozenset({"auto", *(tier.lower() for tier in Tier)})


def check(file: File) -> list[Problem]:
    """Return what is wrong with a file whose every key is right by itself."""
    return [
        *_upstreams(file),
        *_models(file),
        *_tiers(file),
        *_files(file),
        *_server(file),
        *_sessions(file),
    ]


def is_loopback(host: str) -> bool:
    """Tell whether an address to bind is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _upstreams(file: File) -> Iterator[Problem]:
    for name, upstream in file.upstreams.items():
        path = ("upstreams", name, "base_url")
        url = urlsplit(upstream.base_url)
        if upstream.base_url == DEMO_URL:
            continue
        if url.scheme not in {"http", "https"} or not url.hostname:
            yield Problem(
                path, f'"{upstream.base_url}" is not an http or https address', 'as in "https://host/v1"'
            )
        elif url.username or url.password or url.query or url.fragment:
            yield Problem(
                path, "the address must not carry a user, a query or a fragment", "keys go into `key`"
            )
        if not upstream.formats:
            yield Problem(("upstreams", name, "formats"), f'upstream "{name}" speaks no format')


def _models(file: File) -> Iterator[Problem]:
    for name, model in file.models.items():
        if name.lower() in RESERVED or name.startswith("pointsman/"):
            yield Problem(("models", name), f'"{name}" cannot name a model: it asks for a tier')
        if model.upstream not in file.upstreams:
            yield _unknown(("models", name, "upstream"), "upstream", model.upstream, file.upstreams)


def _tiers(file: File) -> Iterator[Problem]:
    for tier, model in file.tiers.models.items():
        if model not in file.models:
            yield _unknown(("tiers", tier.lower()), "model", model, file.models)
    yield from _verify(file)
    bounds = file.tiers.boundaries
    if bounds is not None and sorted(bounds) != list(bounds):
        yield Problem(("tiers", "boundaries"), "boundaries must not fall from one tier to the next")


def _verify(file: File) -> Iterator[Problem]:
    verify = file.tiers.verify
    if verify is None:
        return
    path = ("tiers", "verify", "model")
    if verify.model not in file.models:
        yield _unknown(path, "model", verify.model, file.models)
        return
    upstream = file.upstreams.get(file.models[verify.model].upstream)
    if upstream and not upstream.formats & {WireFormat.CHAT, WireFormat.MESSAGES}:
        yield Problem(
            path, f'"{verify.model}" cannot be asked: its upstream speaks neither chat nor messages'
        )


def _files(file: File) -> Iterator[Problem]:
    named = (
        (("domains", "file"), file.domains.file),
        (("domains", "profiles"), file.domains.profiles),
        (("capabilities", "file"), file.capabilities.file),
    )
    for path, target in named:
        if target is not None and not target.exists():
            yield Problem(path, f"{target} does not exist")
    if file.capabilities.enabled and file.capabilities.file is None:
        yield Problem(
            ("capabilities", "enabled"), 'capabilities need their registry: "file" in [capabilities]'
        )


def _server(file: File) -> Iterator[Problem]:
    server = file.server
    if not is_loopback(server.host) and not server.keys:
        yield Problem(
            ("server", "host"),
            f"{server.host} can be reached by others, and [server] has no keys",
            'keys = ["${POINTSMAN_KEY}"]',
        )
    try:
        server.spec()
    except ValueError as error:
        yield Problem(("server", "keys"), str(error), "printf %s KEY | sha256sum")


def _sessions(file: File) -> Iterator[Problem]:
    sessions = file.sessions
    if sessions.store != "valkey":
        return
    if sessions.url is None:
        yield Problem(
            ("sessions", "store"), 'store "valkey" needs its address', 'url = "redis://127.0.0.1:6379/0"'
        )
    elif urlsplit(sessions.url).password:
        yield Problem(("sessions", "url"), "the address must not carry a password", 'password = "${NAME}"')


def _unknown(path: KeyPath, kind: str, name: str, known: Iterable[str]) -> Problem:
    near = did_you_mean(name, known)
    there_are = ", ".join(known) or "none"
    return Problem(path, f'unknown {kind} "{name}"{near}', "" if near else f"there are: {there_are}")
