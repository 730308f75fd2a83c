"""What a stream has used when its caller leaves: the upstream tells its usage at the end alone."""

from __future__ import annotations

from collections.abc import Sequence

from pointsman.model_choice.fitness import BYTES_PER_TOKEN
from pointsman.wire import Ending, Usage, Wire, sse

__all__ = ["usage_so_far"]


def usage_so_far(wire: Wire, request: int, blocks: Sequence[bytes], size: int) -> tuple[Usage, bool]:
    """Return the usage of a stream that nobody reads to its end, and whether any of it is an estimate.

    Args:
        wire: The upstream's format.
        request: Bytes of the request's body, which are counted as input where the upstream did not say.
        blocks: The first block of whole events and the last few.
        size: Bytes of all blocks. Providers send about one token in an event, and events are of one size.
    """
    end = wire.end(blocks)
    told = end.usage
    if told.input is not None and told.output is not None and end.ending in {Ending.COMPLETE, Ending.SAID}:
        return told, False
    known = b"".join(blocks)
    events = sum(1 for event in sse.events(known) if sse.data(event))
    sent = round(size * events / len(known)) if known else 0
    output = max(told.output or 0, sent)
    return Usage(request // BYTES_PER_TOKEN if told.input is None else told.input, told.cached, output), True
