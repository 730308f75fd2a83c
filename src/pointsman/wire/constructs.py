"""What happens to each construct of a translated request: exact, changed and reported, or refused.

This table is the source of behaviour, of the page ``docs/reference/translation.md`` and of the tests. A
reader puts a construct into the form of ``conversation``; a writer asks ``Report.meet`` what becomes of it.
Refused is what would have side effects or change the meaning of the answer; changed is what is a hint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pointsman.errors import CallerError, shown
from pointsman.vocabulary import WireFormat
from pointsman.wire._constructs_of_content import CONTENT, TOOLS
from pointsman.wire._constructs_of_settings import SETTINGS
from pointsman.wire.fates import MOST_STOPS, Construct, Fate, Kind

__all__ = ["CONSTRUCTS", "UNKNOWN", "Construct", "Fate", "Kind", "Report", "Untranslatable"]

#: The construct of a member that no reader knows. Each is reported by its own name.
UNKNOWN: Final = "unknown"
#: Unknown members of one request that are named, and the characters of a name: a header has room for them.
_NAMED: Final = 8
_LONGEST: Final = 64
_UNNAMABLE: Final = re.compile(r"[^A-Za-z0-9_.-]")


class Untranslatable(CallerError):
    """The upstream's format cannot express something of the request; the message names it and says why."""


class Report:
    """What was changed on the way from one format to another."""

    __slots__ = ("_strict", "_unknown", "changed", "source", "stops", "target")

    def __init__(self, source: WireFormat, target: WireFormat, *, strict: str = "") -> None:
        """Begin; ``strict``: the name of an upstream that is sent no request with an unknown member."""
        self.source = source
        self.target = target
        self._strict = strict
        self._unknown = 0
        self.stops: tuple[str, ...] = ()
        self.changed: list[str] = []  # ids of constructs, each once, in the order they were met

    def meet_opaque(self, kind: str, field: str) -> None:
        """Refuse something that only its own format has; ``kind`` is its type."""
        other = "server_item" if _OF_SERVERS.search(kind) else "unknown_part"
        self.meet(_OPAQUE.get(kind, other), field)

    def meet(self, construct: str, field: str = "") -> bool:
        """Look up what the target does with a construct of the request.

        Args:
            construct: its id, a key of ``CONSTRUCTS``.
            field: where it stands in the request, when that is more exact than the table's field.

        Returns:
            True when it is written exactly, False when it is changed or left out; that is then reported.

        Raises:
            Untranslatable: the target cannot express it.
        """
        found = CONSTRUCTS[construct]
        fate = found.fates.get(self.target)
        if fate is None or fate.kind is Kind.EXACT:
            return True
        where = shown(field or found.fields.get(self.source, construct))
        if construct == UNKNOWN:
            return self._drop(where)
        if fate.kind is Kind.REFUSED:
            raise Untranslatable(
                f'"{where}" cannot be sent to a model that speaks {self.target}: {fate.how}', param=where
            )
        if construct not in self.changed:
            self.changed.append(construct)
        return False

    def keep_stops(self, sequences: tuple[str, ...]) -> None:
        """Let the gateway keep stop sequences that the target cannot be given.

        Raises:
            Untranslatable: they are too long.
        """
        self.stops = tuple(dict.fromkeys(filter(None, sequences)))
        for sequence in self.stops:
            self.meet("stop" if sequence.strip() else "blank_stop")
        if sum(map(len, self.stops)) > MOST_STOPS:
            self.meet("stop_length")

    def _drop(self, where: str) -> bool:
        """Leave out a member of an unknown meaning, and name it.

        Raises:
            Untranslatable: the upstream refuses such requests.
        """
        if self._strict:
            raise Untranslatable(
                f'"{where}" is not known, so it cannot be translated into the format {self.target} of '
                f'upstream "{self._strict}", which refuses what is not known',
                hint=f'[upstreams.{self._strict}] unknown = "drop" leaves such fields out, and reports them',
                param=where,
            )
        self._unknown += 1
        if self._unknown <= _NAMED:
            self.changed.append(f"{UNKNOWN}:{_UNNAMABLE.sub('?', where)[:_LONGEST]}")
        elif self._unknown == _NAMED + 1:
            self.changed.append(f"{UNKNOWN}:...")
        return False


#: Constructs of their own among what only its own format has, by type.
_OPAQUE: Final = {
    "item_reference": "item_reference",
    "compaction": "compaction_item",
    "compaction_summary": "compaction_item",
}

#: Types of a provider's own tools: their calls, results and files.
_OF_SERVERS: Final = re.compile(r"^(mcp|program|container)_?|_(call|output|tool_use|tool_result)$")

#: Every construct by its id. Rows are added beside the reader or writer that meets them.
CONSTRUCTS: Final[Mapping[str, Construct]] = {**SETTINGS, **CONTENT, **TOOLS}
