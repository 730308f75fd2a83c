"""A secret that is never printed: it shows where it came from instead."""

from __future__ import annotations

import hashlib
import hmac
from typing import NoReturn

__all__ = ["Secret"]

_HASHED = "sha256:"


class Secret:
    """A key from the environment, or the hash of one.

    ``str``, ``repr`` and ``format`` give the reference (``${MAIN_API_KEY}``), never the value, so that a
    secret inside a configuration, an exception or a log record stays one.
    """

    __slots__ = ("_value", "reference")

    def __init__(self, value: str, *, reference: str = "***") -> None:
        self._value = value
        self.reference = reference

    def __repr__(self) -> str:
        return f"Secret({self.reference})"

    def __str__(self) -> str:
        return self.reference

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._digest(), other._digest())

    def __hash__(self) -> int:
        return hash(self._digest())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled")

    def reveal(self) -> str:
        """Return the value itself, to be sent to where it belongs.

        Raises:
            ValueError: only the hash is known; a key to send upstream must be given by reference.
        """
        if self._value.startswith(_HASHED):
            raise ValueError("only the hash of this key is known")
        return self._value

    def matches(self, presented: str) -> bool:
        """Tell whether a caller presented this key, in time that does not depend on how much is right."""
        return hmac.compare_digest(_sha256(presented), self._digest())

    def _digest(self) -> bytes:
        if self._value.startswith(_HASHED):
            return self._value.removeprefix(_HASHED).lower().encode()
        return _sha256(self._value)


def _sha256(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest().encode()
