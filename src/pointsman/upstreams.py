"""Where requests go and how the server listens: plain values that the configuration hands to the gateway."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec

from pointsman.types import WireFormat

__all__ = ["DEMO_URL", "Limits", "Secret", "ServerSpec", "Timeouts", "UpstreamSpec", "hash_key"]

#: The ``base_url`` of the built-in demo upstream, which answers inside the process.
DEMO_URL: Final = "demo:"


class Secret:
    """A text that never shows itself: not in a ``repr``, an f-string, a traceback or a dump."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text. Call it only where it goes on the wire."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


def hash_key(key: str) -> bytes:
    """Return the digest under which a caller's key is kept.

    Plain SHA-256: a key is random and long, so a slow password hash would only slow every request.
    """
    return hashlib.sha256(key.encode()).digest()


class Timeouts(msgspec.Struct, frozen=True):
    """How long to wait for an upstream, in seconds."""

    connect: float = 5.0  # a TCP and TLS handshake across an ocean takes under one second
    first_byte: float = 300.0  # reasoning models think for minutes before they say anything
    total: float = 600.0  # the default of the OpenAI and Anthropic SDKs


class UpstreamSpec(msgspec.Struct, frozen=True):
    """A provider an operator configured."""

    name: str
    base_url: str  # with the version prefix, as the OpenAI SDK wants it: "https://llm.example.com/v1"
    key: Secret | None = None
    formats: frozenset[WireFormat] = frozenset(WireFormat)  # what it speaks natively
    timeouts: Timeouts = Timeouts()
    retries: int = 2  # further tries of the same model; the default of the OpenAI and Anthropic SDKs
    auth: Literal["", "bearer", "x-api-key"] = ""  # empty: x-api-key for messages, bearer for the others


class Limits(msgspec.Struct, frozen=True):
    """What a request may at most be."""

    body_bytes: int = 32 << 20  # Anthropic's documented limit on a Messages request
    header_bytes: int = 64 << 10  # all headers together; nginx allows 32 KiB, Codex sends about 2
    depth: int = 128  # nested arrays and objects; a strict tool schema may nest five levels


class ServerSpec(msgspec.Struct, frozen=True):
    """How the gateway listens."""

    host: str = "127.0.0.1"
    port: int = 4747
    keys: tuple[bytes, ...] = ()  # ``hash_key`` of every key a caller may present; empty: no key asked
    limits: Limits = Limits()
    drain: float = 30.0  # seconds that open answers get after SIGTERM; Kubernetes' default grace period
    router_command: bool = False  # answer an in-band "/router …" message without calling a model
