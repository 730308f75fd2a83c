"""The signature of a pair of domains, in the format of docs/sources/compound-domains.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["format_signature", "parse_signature", "restore_from_signature"]


def format_signature(primary: Mapping[str, Any], secondary: Mapping[str, Any] | None) -> str:
    """Both domains in alphabetical order, joined by ``+``."""
    return "+".join(sorted(part["domain"] for part in (primary, secondary) if part))


def parse_signature(signature: str) -> set[str]:
    """The domains of a signature."""
    return set(signature.split("+"))


def restore_from_signature(
    signature: str, new_primary: dict[str, Any], new_secondary: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The signature's domains with this turn's confidences; a domain without signals gets 0.

    A single domain takes the confidence and signals of the new primary, whatever domain that is. Of two, the
    new primary comes first; when it is neither, both get 0, in alphabetical order.

    Source: docs/sources/compound-domains.md, "Step 3: apply compound momentum".
    """
    first, *rest = sorted(parse_signature(signature), key=lambda name: (name != new_primary["domain"], name))
    if not rest:
        return {**new_primary, "domain": first}, None
    if first != new_primary["domain"]:
        return _as_dict(first, 0, []), _as_dict(rest[0], 0, [])
    known = new_secondary if new_secondary and new_secondary["domain"] == rest[0] else None
    return new_primary, known or _as_dict(rest[0], 0, [])


def _as_dict(domain: str, confidence: int, signals: list[str]) -> dict[str, Any]:
    return {"domain": domain, "confidence": confidence, "matched_signals": signals}
