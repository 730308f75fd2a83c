"""What ``pointsman serve`` prints while it serves: one line per request, and a summary at its end."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from pointsman.cli.terminal import FAILED, HINTED, TIERS, coloured, has_colour
from pointsman.gateway.request_log import ServedRequest
from pointsman.printable import printable
from pointsman.reports.usage import PRICED, answered, cost, usage
from pointsman.vocabulary import ModelSpec

__all__ = ["RequestLines", "Totals", "request_line"]

#: Lines that wait for the terminal at most: one whose output is stopped (Ctrl-S) must not hold up requests.
_WAITING: Final = 1_000
#: Seconds for which lines are collected: a person sees no delay below it (Nielsen).
_BATCH: Final = 0.1
#: Sessions that are told apart when stuck ones are counted.
_MOST_SESSIONS: Final = 10_000
#: Characters of a refusal's message on a line.
_SHOWN: Final = 100
#: Seconds that the last lines get to be written.
_PATIENCE: Final = 2.0
_GUIDANCE: Final = "guidance"
_REFUSED: Final = 400

Models = Mapping[str, ModelSpec]


class _Column(NamedTuple):
    heading: str
    width: int
    right: bool = False


_COLUMNS: Final = (
    _Column("time", 8),
    _Column("tier", 9),
    _Column("model", 20),
    _Column("status", 6),
    _Column("in", 8, right=True),
    _Column("out", 7, right=True),
    _Column("cost", 9, right=True),
    _Column("added", 0),
)


class Spent(NamedTuple):
    """What one request used; None: unknown."""

    input: int | None = None
    output: int | None = None
    cost: float | None = None


def _spent(served: ServedRequest, models: Models) -> Spent:
    """What all attempts used together, also those whose answer went to nobody."""
    used = [(attempt, found) for attempt in served.attempts if (found := usage(attempt)) is not None]
    if not used:
        return Spent()
    costs = [cost(models.get(attempt.model), found) for attempt, found in used]
    known = [each for each in costs if each is not None]
    total = sum(known) if len(known) == len(costs) else None
    return Spent(sum(found.input for _, found in used), sum(found.output for _, found in used), total)


def request_line(served: ServedRequest, models: Models, *, colour: bool = False) -> str:
    """Return one request as a line: time, tier, model, status, tokens, cost, and what was added to it."""
    decision = served.decision
    tier = str(decision.tier.tier) if decision and decision.tier else "-"
    spent = _spent(served, models)
    status = str(served.status) if served.status else "left"
    texts = (
        time.strftime("%H:%M:%S", time.localtime(served.ended_at)),
        tier,
        _model(served),
        status,
        _count(spent.input),
        _count(spent.output),
        "-" if spent.cost is None else f"{spent.cost:.{PRICED}f}",
        ", ".join(_added(served)),
    )
    cells = [_cell(printable(text), column) for text, column in zip(texts, _COLUMNS, strict=True)]
    if colour:
        cells[1] = coloured(cells[1], TIERS.get(tier, ""))
        cells[3] = coloured(cells[3], "" if 0 < served.status < _REFUSED else FAILED)
        cells[-1] = coloured(cells[-1], HINTED) if cells[-1] else ""
    return "  ".join(cells).rstrip()


def heading() -> str:
    """Return the names of the columns."""
    return "  ".join(_cell(column.heading, column) for column in _COLUMNS)


def _cell(text: str, column: _Column) -> str:
    if column.width and len(text) > column.width and not column.right:
        text = text[: column.width - 1] + "…"
    return text.rjust(column.width) if column.right else text.ljust(column.width)


def _count(tokens: int | None) -> str:
    return "-" if tokens is None else f"{tokens:,}"


def _model(served: ServedRequest) -> str:
    """Which model answered, or was tried last; the path where none was asked for."""
    good = answered(served.attempts)
    if good is not None or served.attempts:
        return (good or served.attempts[-1]).model
    decision = served.decision
    if decision is None:
        return served.path.decode("latin-1").removeprefix("/v1")
    return "none" if decision.refused or served.status >= _REFUSED else "pointsman"  # it answered by itself


def _added(served: ServedRequest) -> Iterator[str]:
    decision = served.decision
    if decision is not None:
        firing = decision.guidance.firing if decision.guidance else None
        for injection in decision.injections:
            is_hint = injection.source == _GUIDANCE and firing is not None
            yield f"+{injection.source}" + (f" ({firing.classifier})" if is_hint and firing else "")
    if served.status >= _REFUSED and (why := _refusal(served.refusal)):
        yield why


def _refusal(body: bytes) -> str:
    """The message of an error, in whichever format the caller got it."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return " ".join(message.split())[:_SHOWN] if isinstance(message, str) else ""


class Totals:
    """Sums over all requests since the start."""

    def __init__(self) -> None:
        self.requests = self.failed = self.input = self.output = self.unpriced = 0
        self.cost = 0.0
        self._stuck: set[str] = set()

    def add(self, served: ServedRequest, models: Models) -> None:
        """Count one request."""
        self.requests += 1
        self.failed += not 0 < served.status < _REFUSED
        spent = _spent(served, models)
        self.input += spent.input or 0
        self.output += spent.output or 0
        self.cost += spent.cost or 0.0
        self.unpriced += spent.input is not None and spent.cost is None
        decision = served.decision
        if decision and decision.guidance and decision.guidance.firing and len(self._stuck) < _MOST_SESSIONS:
            self._stuck.add(decision.input.session or decision.id)

    def lines(self, ledger: Path, *, demo: bool = False) -> Iterator[str]:
        """Yield the summary, a line for each sum."""
        failed = f", {self.failed:,} of them failed or refused" if self.failed else ""
        yield f"Requests: {self.requests:,}{failed}"
        unpriced = f" ({self.unpriced:,} requests without a price)" if self.unpriced else ""
        yield f"Tokens: {self.input:,} in, {self.output:,} out; cost {self.cost:.{PRICED}f}{unpriced}"
        listed = "pointsman decisions list" + (" --demo" if demo else "")
        yield f"Stuck sessions: {len(self._stuck):,}"
        yield f"Ledger: {ledger} ({listed})"


class RequestLines:
    """Counts requests, and writes their lines in a thread of its own, those of a tenth of a second at once.

    To wake a thread for each request costs more than the line (docs/decisions/0166).
    """

    def __init__(self, models: Callable[[], Models], stream: TextIO | None = None) -> None:
        """Take the configured models, which a reload may change, and where lines go: standard output."""
        self.totals = Totals()
        self._models = models
        self._stream = stream or sys.stdout
        self._waiting: deque[ServedRequest] = deque()
        self._left_out = 0  # lines for which there was no room
        self._some, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="request-lines", daemon=True)
        self._thread.start()

    def tell(self, served: ServedRequest) -> None:
        """Take one request that has ended. Never blocks."""
        self.totals.add(served, self._models())
        if len(self._waiting) >= _WAITING:
            self._left_out += 1
            return
        self._waiting.append(served)
        if not self._some.is_set():
            self._some.set()

    def close(self) -> None:
        """Write what waits, for as long as the terminal takes it."""
        self._ended.set()
        self._some.set()
        self._thread.join(_PATIENCE)

    def _write_all(self) -> None:
        colour, headed, said = has_colour(self._stream), False, 0
        while self._some.wait():
            is_last = self._ended.wait(_BATCH)
            self._some.clear()
            models = self._models()
            lines = [] if headed or not self._waiting else [heading()]
            while self._waiting:
                lines.append(request_line(self._waiting.popleft(), models, colour=colour))
            left_out = self._left_out
            if left_out > said:
                lines.append(f"{left_out - said:,} more requests were not shown")
            headed, said = headed or bool(lines), left_out
            try:
                self._stream.write("".join(f"{line}\n" for line in lines))
                self._stream.flush()
            except (OSError, ValueError):  # the terminal is gone; who serves goes on
                return
            if is_last:
                return
