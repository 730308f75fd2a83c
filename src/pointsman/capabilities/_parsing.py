"""Capabilities and calibrations written as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from pointsman.capabilities._guides import ClassifierExample, TaskClassifierGuide
from pointsman.capabilities._registry import Capability, CapabilityRegistry
from pointsman.capabilities.calibration import Calibration
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import ConfigError

__all__ = ["parse_calibration", "parse_capabilities"]


class _Example(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    result: bool = True
    reason: str = ""


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    instructions: str
    examples: list[_Example] = []
    provides: list[str] = []
    requires: list[str] = []
    always_active: bool = False
    needs_approval: bool = False


def parse_capabilities(data: bytes | str, place: str) -> CapabilityRegistry:
    """Read a JSON list of capabilities.

    Raises:
        ConfigError: it is none, or an entry is wrong; the message names the place and the entry.
    """
    try:
        entries = msgspec.json.decode(data, type=list[msgspec.Raw])
    except UNREADABLE as error:
        raise ConfigError(f"not a JSON list of capabilities: {why_unreadable(error)}", place=place) from error
    return CapabilityRegistry(_capability(place, at, raw) for at, raw in enumerate(entries))


def parse_calibration(data: bytes | str, place: str) -> Calibration:
    """Read a calibration, as ``pointsman fit capabilities`` writes it.

    Raises:
        ConfigError: it is something else.
    """
    try:
        return Calibration.from_json(msgspec.json.decode(data, type=dict[str, Any]))
    except UNREADABLE as error:
        raise ConfigError(f"not JSON: {why_unreadable(error)}", place=place) from error


def _capability(place: str, at: int, raw: msgspec.Raw) -> Capability:
    try:
        record = msgspec.json.decode(raw, type=_Record)
        examples = [ClassifierExample(each.query, each.result, each.reason) for each in record.examples]
        return Capability(
            record.name,
            TaskClassifierGuide(record.instructions, examples),
            record.provides,
            record.requires,
            record.always_active,
            record.needs_approval,
        )
    except (ValueError, ConfigError) as error:
        raise ConfigError(f"capability {at + 1}: {error}", place=place) from error
