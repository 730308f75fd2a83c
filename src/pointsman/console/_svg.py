"""Pictures of the console as SVG: the bar of a score, points over two axes, bars of money."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from pointsman.console._render import amount, clock, plural, visible
from pointsman.vocabulary import Tier

#: Width of the bar of a score in its own units; the page scales it.
WIDTH: Final = 1_000
#: Width from which on a part of it has room for the name of its tier.
_NAMED_FROM: Final = 110


def _svg(kind: str, box: str, label: str, parts: Iterable[str], role: str = "img") -> Markup:
    """Return a picture of parts in which each text is escaped."""
    head = f'<svg class="{kind}" viewBox="{box}" role="{role}" aria-label="{escape(label)}">'
    return Markup("\n".join([head, *parts, "</svg>\n"]))  # noqa: S704 - see above


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "", more: str = "") -> str:
    named = f'class="{kind}" ' if kind else ""
    return f'<text {named}x="{x}" y="{y}" text-anchor="{anchor}"{more}>{escape(visible(text))}</text>'


def _rail(left: float, right: float, y: float) -> str:
    return f'<line class="rail" x1="{left}" x2="{right}" y1="{y}" y2="{y}"></line>'


def score_bar(score: float, boundaries: Sequence[float], name: str) -> Markup:
    """Place a score on a bar that shows all boundaries, with room on both sides."""
    ends = [*boundaries, score]
    room = max((max(ends) - min(ends)) * 0.15, 0.02)
    low, high = min(ends) - room, max(ends) + room

    def place(value: float) -> float:
        return round((value - low) / (high - low) * WIDTH, 1)

    edges = [0.0, *map(place, boundaries), float(WIDTH)]
    parts: list[str] = []
    for tier, left, right in zip(Tier, edges, edges[1:], strict=False):
        width = round(right - left, 1)
        kind = f"fill t-{tier.lower()}"
        parts.append(f'<rect class="{kind}" x="{left}" y="30" width="{width}" height="18"></rect>')
        parts += [_text(left + width / 2, 86, tier, kind="name")] if width > _NAMED_FROM else []
    for value in boundaries:
        x = place(value)
        line = f'<line class="edge" x1="{x}" x2="{x}" y1="26" y2="52"></line>'
        parts.append(line + _text(x, 67, f"{value:g}"))
    at = place(score)
    anchor = "start" if at < WIDTH * 0.1 else "end" if at > WIDTH * 0.9 else "middle"
    parts.append(f'<path class="needle" d="M{at} 52 V26 l-7 -8 h14 l-7 8"></path>')
    parts.append(_text(at, 13, f"{score:.3f}", anchor, "score"))
    told = ", ".join(f"{value:g}" for value in boundaries)
    return _svg("bar", f"0 0 {WIDTH} 92", f"{name}: score {score:.3f}; boundaries {told}", parts)


#: Edges of the points, in the units of their picture.
_LEFT, _RIGHT, _ABOVE, _BELOW = 60.0, 700.0, 30.0, 260.0
_TICKS: Final = 5
#: Half the width of a letter of a name and the height of its line, as a phone shows them.
_LETTER: Final = 6
_LINE: Final = 22
_WORKING: Final = "working point"


def points_chart(points: Sequence[tuple[str, float, float, float, float]], label: str, axis: str) -> Markup:
    """Place points of a name, a cost and a score with its interval; scores go from 0 to 1.

    The point without a name is the working point.
    """
    most = max(cost for _, cost, _, _, _ in points) * 1.1 or 1.0

    def x(cost: float) -> float:
        return round(_LEFT + cost / most * (_RIGHT - _LEFT), 1)

    def y(score: float) -> float:
        return round(_BELOW - score * (_BELOW - _ABOVE), 1)

    steps = [step / (_TICKS - 1) for step in range(_TICKS)]
    parts = [
        *(
            _rail(_LEFT, _RIGHT, y(step)) + _text(_LEFT - 8, y(step) + 4, f"{step:g}", "end")
            for step in steps
        ),
        *(_text(x(most * step), _BELOW + 18, f"{most * step:.3g}") for step in steps),
        _text((_LEFT + _RIGHT) / 2, _BELOW + 36, axis, kind="axis"),
    ]
    named: list[tuple[float, float, int]] = []
    names: list[str] = []  # after all lines, so that none covers one
    for name, cost, score, low, high in points:
        across, up, height, half = x(cost), y(score), y(high) - 7, _LETTER * len(name or _WORKING)
        while any(
            abs(other - across) < half + wide and abs(at - height) < _LINE for other, at, wide in named
        ):
            height -= _LINE  # above the name that is there
        named.append((across, height, half))
        line = f'<line x1="{across}" x2="{across}" y1="{y(high)}" y2="{y(low)}"></line>'
        dot = f'<circle cx="{across}" cy="{up}" r="5"></circle>'
        diamond = f'<path d="M{across} {up - 8} l8 8 l-8 8 l-8 -8 Z"></path>'
        mark = dot if name else diamond
        kind = "dot" if name else "dot now"
        parts.append(f'<g class="{kind}">{line}{mark}</g>')
        names.append(_text(across, height, name or _WORKING, kind="point"))
    top = min(0.0, *(at - _LINE for _, at, _ in named))  # names above the axis are in the picture
    return _svg("chart", f"0 {top:g} 760 {300 - top:g}", label, parts + names)


class Money(NamedTuple):
    """Costs and savings of an hour or a day, in US dollars."""

    at: float  # where it begins, seconds since the epoch
    paid: float
    saved: float
    requests: int


#: Edges of the bars of money, in the units of their picture.
_WIDE, _FROM, _TOP, _FLOOR = 760.0, 84.0, 12.0, 176.0
#: Times below the bars at most.
_NAMED: Final = 8


def money_bars(periods: Sequence[Money], form: str) -> Markup:
    """Draw costs with the savings above, together the cost of the baseline, side by side.

    Args:
        periods: Hours or days.
        form: "hour" or "date". An hour is a link to why it cost more or less than the one before.
    """
    most = max((each.paid + max(each.saved, 0.0) for each in periods), default=0.0) or 1.0
    step, tall = (_WIDE - _FROM) / max(len(periods), 1), _FLOOR - _TOP
    width, every = round(max(step * 0.72, 1.0), 1), -(-len(periods) // _NAMED)
    ticks = ((round(_FLOOR - tall * half / 2, 1), most * half / 2) for half in range(3))
    parts = [_rail(_FROM, _WIDE, y) + _text(_FROM - 8, y + 4, amount(value), "end") for y, value in ticks]
    for number, of in enumerate(periods):
        x = round(_FROM + number * step, 1)
        parts += _money_bar(of, form, x, width, tall / most)
        if (len(periods) - 1 - number) % every == 0:
            at = f' data-at="{of.at}"' if form == "hour" else ""
            parts.append(_text(x + width / 2, 194, clock(of.at, form), kind="axis", more=at))
    role, by = ("group", "by the hour") if form == "hour" else ("img", "by day")
    label = f"Paid and saved, {by}; each bar has its figures as a title."
    return _svg("chart money-bars", f"0 0 {_WIDE} 200", label, parts, role)


def _money_bar(of: Money, form: str, x: float, width: float, unit: float) -> Iterator[str]:
    paid, saved = of.paid * unit, max(of.saved, 0.0) * unit
    shown = (
        ("room", _TOP, _FLOOR - _TOP),
        ("saved", round(_FLOOR - paid - saved, 1), round(saved, 1)),
        ("paid", round(_FLOOR - paid, 1), round(paid, 1)),
    )
    bars = "".join(
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"></rect>'
        for kind, y, height in shown
    )
    money = f"paid {amount(of.paid)}, saved {amount(of.saved)}"
    said = f"{clock(of.at, form)}: {money}, {plural(of.requests, 'request')}"
    group = f'<g class="bar-of"><title>{said}</title>\n{bars}</g>'
    is_link = form == "hour" and of.requests
    yield f'<a href="/console/change?to={int(of.at)}" aria-label="{said}">{group}</a>' if is_link else group
