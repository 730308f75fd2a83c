"""Floor 0: draws that come out the same everywhere and always, for shares of sessions and messages."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["draw"]


def draw(*key: object) -> float:
    """Return a number from 0 up to 1, uniform over keys: compare it with a share.

    Args:
        key: Input of the draw. Two draws that must be independent have keys that begin differently.
    """
    text = "\0".join(map(str, key)).encode("utf-8", "surrogatepass")
    # The upper 53 bits: a float holds no more, and rounding all 64 could give 1.
    return (int.from_bytes(blake2b(text, digest_size=8).digest()) >> 11) / 2**53
