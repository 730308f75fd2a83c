"""Token estimate of a text."""

from __future__ import annotations

__all__ = ["estimate_tokens"]


def estimate_tokens(text: str) -> int:
    """UTF-8 bytes // 4: 0.9 of the exact count for Chinese, where characters // 4 gives 0.42.

    Source: docs/explanation/evidence.md, "Token estimate". ASCII text needs no encoding to be measured.
    """
    return (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) // 4
