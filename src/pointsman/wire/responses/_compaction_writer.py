"""Answers that are one compaction: see ``_compaction``."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pointsman.wire.conversation import Completion, Event, Stop, Text, TextDelta, UsageReport
from pointsman.wire.responses._answer import snapshot
from pointsman.wire.responses._compaction import compaction_item
from pointsman.wire.responses._translation_answer import NOTHING_ASKED, Asked, bare_id, write_usage
from pointsman.wire.responses._translation_stream_writer import StreamWriter

__all__ = ["CompactionWriter", "write_compaction"]


def write_compaction(completion: Completion, asked: Asked = NOTHING_ASKED) -> bytes:
    """Return a whole answer that is one compaction."""
    bare = bare_id(completion.id)
    summary = "".join(part.text for part in completion.parts if isinstance(part, Text))
    return msgspec.json.encode(
        snapshot(
            id=f"resp_{bare}",
            model=completion.model,
            created=completion.created,
            status="completed",
            output=[compaction_item(f"{bare}_0", summary)],
            usage=write_usage(completion.usage),
            asked=asked.repeated,
        )
    )


class CompactionWriter(StreamWriter):
    """Writes one stream whose only item is the compaction, at its end."""

    def __init__(self, model: str, asked: Asked = NOTHING_ASKED) -> None:
        super().__init__(model, asked)
        self._summary: list[str] = []

    def _text(self, event: TextDelta) -> Iterator[bytes]:
        self._summary.append(event.text)
        return iter(())

    def _other(self, event: Event) -> Iterator[bytes]:
        if isinstance(event, Stop):
            yield from self._compacted()
        if isinstance(event, Stop | UsageReport):
            yield from super()._other(event)

    def _compacted(self) -> Iterator[bytes]:
        item = compaction_item(self._suffix(), "".join(self._summary))
        self._output.append(item)
        for kind in ("added", "done"):
            yield self._event(f"response.output_item.{kind}", output_index=0, item=item)
