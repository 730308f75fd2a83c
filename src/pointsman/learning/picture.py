"""The cost-quality curve as a picture: SVG from a few lines of text, PNG through matplotlib.

The console shows the same SVG; its style sheet colours the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Final

from pointsman.errors import PointsmanError

__all__ = ["Picture", "curve_svg", "draw"]

#: Size in pixels, and room for the labels of the axes.
WIDTH: Final = 640
HEIGHT: Final = 400
LEFT: Final = 70
BELOW: Final = 60
ABOVE: Final = 20

#: A blue and a grey that are told apart in print and by every kind of colour blindness.
ROUTED: Final = "#1f5fa8"
PLAIN: Final = "#767676"

TICKS: Final = 5

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Picture:
    """Data of the chart; every x is a cost, every y a share of the best tier's quality."""

    curve: Points
    low: Sequence[float]  # 95 % interval of each point of the curve
    high: Sequence[float]
    models: Points  # each model alone; joined, they are what mixing at random gives
    chosen: tuple[float, float] | None  # None: no working point is known
    unit: str  # of the costs

    @property
    def _marked(self) -> Points:
        return [*self.models, *([self.chosen] if self.chosen else [])]

    @property
    def across(self) -> tuple[float, float]:
        """Least and greatest cost."""
        costs = [cost for cost, _ in (*self.curve, *self._marked)]
        return min(costs), max(costs)

    @property
    def up(self) -> tuple[float, float]:
        """Least and greatest quality."""
        values = [*self.low, *self.high, *(quality for _, quality in self._marked)]
        return min(values), max(values)


def draw(picture: Picture, file: Path) -> None:
    """Write a picture; the ending of the name selects the format.

    Raises:
        PointsmanError: another ending than ``.svg`` or ``.png``, or the file cannot be written.
        ModuleNotFoundError: matplotlib is needed for ``.png`` and is not installed.
    """
    if file.suffix not in _KINDS:
        raise PointsmanError(f"cannot draw {file.name}", hint="name it .svg or .png")
    try:
        file.write_bytes(_KINDS[file.suffix](picture))
    except OSError as error:
        raise PointsmanError(f"cannot write {file}: {error.strerror or error}") from error


def curve_svg(picture: Picture) -> str:
    """Return a picture as SVG."""
    place = partial(_placed, picture)
    band = [*zip(picture.curve, picture.high, strict=True)]
    under = [*zip(picture.curve, picture.low, strict=True)][::-1]
    outline = " ".join(place(cost, edge) for (cost, _), edge in (*band, *under))
    label = f'role="img" aria-label="Quality kept over the cost, {picture.unit}, with 95 % intervals"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" class="chart" {label}>',
        '<g font-family="sans-serif" font-size="12">',
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_axes(picture),
        f'<polygon class="band" points="{outline}" fill="{ROUTED}" fill-opacity="0.15"/>',
        _line(picture.models, place, "plain-line", f'stroke="{PLAIN}" stroke-dasharray="5 4"'),
        *(_dot(point, place, PLAIN, 4) for point in picture.models),
        _line(picture.curve, place, "curve", f'stroke="{ROUTED}" stroke-width="2"'),
        *(_dot(point, place, ROUTED, 6) for point in ([picture.chosen] if picture.chosen else [])),
        *_legend(),
        "</g></svg>\n",
    ]
    return "\n".join(parts)


def _placed(picture: Picture, cost: float, quality: float) -> str:
    """The pixel of a cost and a quality, as SVG writes it."""
    (left, right), (low, high) = picture.across, picture.up
    x = LEFT + (cost - left) / ((right - left) or 1.0) * (WIDTH - LEFT - ABOVE)
    y = HEIGHT - BELOW - (quality - low) / ((high - low) or 1.0) * (HEIGHT - BELOW - ABOVE)
    return f"{x:.1f},{y:.1f}"


def _axes(picture: Picture) -> list[str]:
    (left, right), (low, high) = picture.across, picture.up
    bottom = HEIGHT - BELOW
    lines = [
        f'<path class="rail" d="M{LEFT},{ABOVE} V{bottom} H{WIDTH - ABOVE}" fill="none" stroke="black"/>',
        f'<text x="{(LEFT + WIDTH) // 2}" y="{HEIGHT - 15}" text-anchor="middle">cost, {picture.unit}</text>',
        f'<text transform="translate(15,{bottom // 2}) rotate(-90)" text-anchor="middle">quality kept</text>',
    ]
    for step in range(TICKS):
        part = step / (TICKS - 1)
        x = LEFT + part * (WIDTH - LEFT - ABOVE)
        y = bottom - part * (bottom - ABOVE)
        cost, quality = left + part * (right - left), low + part * (high - low)
        lines += [
            f'<text x="{x:.0f}" y="{bottom + 18}" text-anchor="middle">{cost:.4g}</text>',
            f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{quality:.1%}</text>',
        ]
    return lines


def _legend() -> list[str]:
    words = ((ROUTED, "routed, held out, with 95 % interval"), (PLAIN, "models alone, and drawn at random"))
    return [
        f'<text x="{WIDTH - ABOVE}" y="{HEIGHT - BELOW - 30 + 16 * at}" text-anchor="end" fill="{colour}">'
        f"{text}</text>"
        for at, (colour, text) in enumerate(words)
    ]


def _line(points: Points, place: Callable[[float, float], str], kind: str, style: str) -> str:
    joined = " ".join(place(*point) for point in points)
    return f'<polyline class="{kind}" points="{joined}" fill="none" {style}/>'


def _dot(point: tuple[float, float], place: Callable[[float, float], str], colour: str, size: int) -> str:
    x, y = place(*point).split(",")
    return f'<circle cx="{x}" cy="{y}" r="{size}" fill="{colour}"/>'


def _png(picture: Picture) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=200, layout="constrained")
    axes = figure.subplots()
    costs = [cost for cost, _ in picture.curve]
    axes.fill_between(costs, picture.low, picture.high, color=ROUTED, alpha=0.15, linewidth=0)
    axes.plot(
        *zip(*picture.models, strict=True), "o--", color=PLAIN, label="models alone, and drawn at random"
    )
    axes.plot(*zip(*picture.curve, strict=True), color=ROUTED, label="routed, held out, with 95 % interval")
    if picture.chosen:
        axes.plot(*picture.chosen, "o", color=ROUTED, markersize=9)
    axes.set(xlabel=f"cost, {picture.unit}", ylabel="quality kept")
    axes.yaxis.set_major_formatter("{x:.1%}")
    axes.legend(loc="lower right")
    written = BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()


_KINDS: Final = {".svg": lambda picture: curve_svg(picture).encode(), ".png": _png}
