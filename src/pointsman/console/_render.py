"""Templates, and how values are written in them: numbers, times, text of callers and models."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pointsman.prices import dollars
from pointsman.printable import Block, html_text, printable

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"


def visible(text: str) -> str:
    """Return text in which no character acts but the ends of lines, safe for a browser."""
    return printable(text, keep="\n\t")


def render(template: str, context: Mapping[str, object]) -> str:
    """Return a page. Every value is escaped, and what acts in it is made visible."""
    return _environment().get_template(template).render(context)


@cache
def fingerprint(name: str) -> str:
    """Return a short hash of a static file, which its address carries: a changed file has another address."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.globals.update(static=_static, rank=_RANKS)
    found.filters.update(
        amount=amount, count=count, ms=milliseconds, when=when, share=share, tierclass=str.lower,
        path=path_of, search=urlencode, clock=clock, places=places, fixed=fixed, plural=plural,
        blocks=_blocks,
    )  # fmt: skip
    return found


#: A shape beside the colour of each tier.
_RANKS: Final = {"SIMPLE": "▁", "MEDIUM": "▃", "COMPLEX": "▅", "REASONING": "▇"}


def _finalized(value: object) -> object:
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _blocks(blocks: Iterable[Block]) -> Markup:
    return Markup(html_text(blocks))  # noqa: S704 - it escapes each text


def _static(name: str) -> str:
    return f"/console/static/{name}?v={fingerprint(name)}"


def path_of(text: str) -> str:
    """Write a value as one part of a path."""
    return quote(text, safe="")


def amount(value: float | None) -> str:
    """Write money in dollars; "–" if it is unknown."""
    return dollars(value, unknown="–")


def places(largest: float) -> int:
    """Decimal places with which the largest amount of a table has three significant digits, two at least."""
    return max(2, min(8, 3 - math.ceil(math.log10(abs(largest))))) if largest else 2


def fixed(value: float | None, decimals: int) -> str:
    """Write dollars so that the numbers of a column align: with as many decimal places as all of it."""
    if value is None:
        return "–"
    text = f"{value:z,.{decimals}f}"
    return f"-${text[1:]}" if text.startswith("-") else f"${text}"


def plural(value: int, thing: str) -> str:
    """Write a count with its noun: "1 label", "2 labels"."""
    return f"{count(value)} {thing}{'' if value == 1 else 's'}"


def count(value: float | None) -> str:
    """Write a count: 1,234, or 12.3 k and 4.5 M where the exact one does not matter."""
    if value is None:
        return "–"
    for least, unit in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= least:
            return f"{value / (1e6 if unit == 'M' else 1e3):.1f} {unit}"
    return f"{value:,.0f}"


def milliseconds(value: float | None) -> str:
    """Write a time given in milliseconds."""
    if value is None:
        return "–"
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    return (
        f"{value:,.0f} ms" if value >= 10 else f"{value:.2f} ms" if value >= 0.1 else f"{value * 1000:.0f} µs"
    )


def share(value: float | None) -> str:
    """Write a share as a percentage."""
    return "–" if value is None else f"{value:.1%}"


def clock(seconds: float, form: str) -> str:
    """Write the time below a bar, in UTC: "14:00", or "11-23" for a day."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M UTC" if form == "hour" else "%m-%d")


def when(seconds: float | None, form: str = "time") -> Markup:
    """Write a time. Scripts put it into the reader's zone; the exact one is in the title.

    Args:
        seconds: Since the epoch.
        form: "time", "full" or "day".
    """
    if not seconds:
        return Markup("–")
    at = datetime.fromtimestamp(seconds, UTC)
    exact = at.isoformat(" ", "milliseconds")[:23]
    shown = {"time": exact[11:19], "full": exact[:19], "day": exact[:10]}[form]
    return Markup(  # noqa: S704 - a time holds nothing that acts
        f'<time datetime="{at.isoformat()}" title="{exact} UTC" data-form="{form}">{shown}</time>'
    )
