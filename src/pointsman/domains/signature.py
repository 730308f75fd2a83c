"""The signature of a pair of domains, in the format of docs/sources/compound-domains.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pointsman.domains.parsing import default_domains

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

    The new primary comes first when the signature has it, else the domain of higher priority.
    """
    fresh = {part["domain"]: part for part in (new_secondary, new_primary) if part}
    first, *rest = sorted(
        parse_signature(signature),
        key=lambda name: (name != new_primary["domain"], _priority(name), name),
    )
    restored = [fresh.get(name) or _as_dict(name, 0, []) for name in (first, *rest)]
    return restored[0], restored[1] if rest else None


@cache
def _priorities() -> dict[str, int]:
    return {domain.name: domain.priority for domain in default_domains()}


def _priority(name: str) -> int:
    return _priorities().get(name, 99)


def _as_dict(domain: str, confidence: int, signals: list[str]) -> dict[str, Any]:
    return {"domain": domain, "confidence": confidence, "matched_signals": signals}
