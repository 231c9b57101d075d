"""Pictures of plain dictionaries as inline SVG, which pages show, print and let a script move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from .markup import Html

Array = npt.NDArray[Any]
Matrix = npt.NDArray[np.float64]

# A panel of points, in its own units; the inner rectangle holds the points.
WIDTH, HEIGHT = 480, 420
LEFT, RIGHT, TOP, BOTTOM = 44, 470, 10, 370
# Share of the rows at either end that may lie beyond a panel's edge, where they are put.
BEYOND = 0.005
# Colours of their own: with as many shapes, twice as many classes can be told apart.
COLOURED, SHAPED, OTHER = 6, 12, "o"
# Steps of the scale on which numbers are shown.
STEPS = 7

SHAPES = (
    '<circle id="m0" r="3.7"/><rect id="m1" x="-3.2" y="-3.2" width="6.4" height="6.4"/>'
    '<path id="m2" d="M0-4.4 4.1 3H-4.1z"/><path id="m3" d="M0-4.7 4.2 0 0 4.7-4.2 0z"/>'
    '<path id="m4" d="M0 4.4 4.1-3H-4.1z"/>'
    '<path id="m5" d="M-1.5-4.3h3v2.8h2.8v3H1.5v2.8h-3V1.5h-2.8v-3h2.8z"/>'
    '<circle id="suggested" r="8"/><rect id="given" x="-7" y="-7" width="14" height="14"/>'
)


@dataclass(frozen=True)
class Frame:
    """Where a panel puts the rectangle from ``low`` to ``high``, each (x, y)."""

    low: tuple[float, float]
    high: tuple[float, float]

    def place(self, points: Matrix) -> npt.NDArray[np.int_]:
        """Whole coordinates (n, 2) in the panel; rows beyond its edge are put on it."""
        low, high = np.array(self.low), np.array(self.high)
        share = ((points - low) / (high - low)).clip(0.0, 1.0)
        x = LEFT + share[:, 0] * (RIGHT - LEFT)
        y = BOTTOM - share[:, 1] * (BOTTOM - TOP)
        placed: npt.NDArray[np.int_] = np.column_stack([x, y]).round().astype(int)
        return placed

    def beyond(self, points: Matrix) -> int:
        """How many points lie beyond the edge."""
        outside = (points < np.array(self.low)) | (points > np.array(self.high))
        return int(outside.any(axis=1).sum())


def frame_around(*clouds: Matrix) -> Frame:
    """The rectangle that holds nearly all points of every cloud."""
    ends = [np.quantile(cloud, (BEYOND, 1.0 - BEYOND), axis=0) for cloud in clouds]
    low, high = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)
    margin = 0.06 * np.maximum(high - low, 1e-9)
    low, high = low - margin, high + margin
    return Frame((float(low[0]), float(low[1])), (float(high[0]), float(high[1])))


def kind_of(style: int) -> str:
    """The class of a style, which sets its colour: c0 to c5, s0 to s6 on a scale, or "other"."""
    return f"k{OTHER}" if style < 0 else f"k{style % COLOURED}"


def shape_of(style: int) -> int:
    """The shape of a style: as many classes again take each colour with another shape."""
    return 0 if style < 0 else (style + 3 * (style // COLOURED)) % COLOURED


def mark(style: int, x: float, y: float, scale: bool) -> str:
    """One point: its shape and colour say the class, its colour alone a number on a scale."""
    kind, shape = (f"q{style}", 0) if scale else (kind_of(style), shape_of(style))
    return f'<use href="#m{shape}" class="{kind}" x="{x}" y="{y}"/>'


def points(
    name: str, frame: Frame, cloud: Matrix, styles: Sequence[int], scale: bool = False
) -> str:
    """A group of points, in the order of the rows."""
    places = frame.place(cloud).tolist()
    marks = [mark(style, x, y, scale) for style, (x, y) in zip(styles, places, strict=True)]
    return f'<g class="{name}">{"".join(marks)}</g>'


def rings(frame: Frame, cloud: Matrix, rows: Sequence[int], name: str) -> str:
    """Rings round some rows; a script finds by ``data-i`` whose they are."""
    places = frame.place(cloud).tolist()
    marks = [
        f'<use href="#{name}" data-i="{i}" x="{places[i][0]}" y="{places[i][1]}"/>' for i in rows
    ]
    return f'<g class="{name}">{"".join(marks)}</g>' if marks else ""


def panel(words: str, axes: tuple[str, str], frame: Frame, drawn: Sequence[str]) -> Html:
    """A panel with axes; ``words`` is its text alternative, ``drawn`` what is in it."""
    grid = [_tick(frame, 0, v) for v in ticks(frame.low[0], frame.high[0])]
    grid += [_tick(frame, 1, v) for v in ticks(frame.low[1], frame.high[1])]
    middle = (LEFT + RIGHT) // 2, (TOP + BOTTOM) // 2
    return Html(
        f'<svg class="panel" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(words)}">'
        f'<g class="grid" aria-hidden="true">{"".join(grid)}'
        f'<text class="axis" x="{middle[0]}" y="{BOTTOM + 40}">{escape(axes[0])}</text>'
        f'<text class="axis" transform="translate(12 {middle[1]}) rotate(-90)">'
        f"{escape(axes[1])}</text></g>{''.join(drawn)}</svg>"
    )


def _tick(frame: Frame, side: int, value: float) -> str:
    at = frame.place(np.array([[value, value]]))[0, side]
    if side == 0:
        return (
            f'<path d="M{at} {TOP}V{BOTTOM}"/><text x="{at}" y="{BOTTOM + 18}">{value:.4g}</text>'
        )
    return (
        f'<path d="M{LEFT} {at}H{RIGHT}"/>'
        f'<text class="end" x="{LEFT - 6}" y="{at + 4}">{value:.4g}</text>'
    )


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between the ends, about so many."""
    span = max(high - low, 1e-300)
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= about)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def barred(share: float, words: str) -> Html:
    """A number in words beside a bar of this share."""
    width = round(100 * min(max(share, 0.0), 1.0), 1)
    return Html(
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" '
        f'aria-hidden="true"><rect class="rail" width="100" height="10"/>'
        f'<rect width="{width}" height="10"/></svg><span class="beside">{escape(words)}</span>'
    )


def histogram(counts: Sequence[int], words: str) -> Html:
    """Small bars side by side, as high as the counts; ``words`` is the text alternative."""
    most = max(1, *counts)
    bars = "".join(
        f'<rect x="{10 * i + 1}" y="{30 - 28 * c / most:.1f}" width="8" '
        f'height="{28 * c / most:.1f}"/>'
        for i, c in enumerate(counts)
    )
    return Html(
        f'<svg class="histogram" viewBox="0 0 {10 * len(counts)} 31" role="img" '
        f'aria-label="{escape(words)}">{bars}<path d="M0 30.5H{10 * len(counts)}"/></svg>'
    )


def discrepancies(
    rows: Sequence[dict[str, Any]], ends: Sequence[tuple[str, float]], chance: float | None
) -> Html:
    """MMD, the root of MMD², of the candidates, best first from the top, and of all descents."""
    left, right, line = 170, 460, 24
    values = [math.sqrt(max(row["mmd2"], 0.0)) for row in rows]
    places = [math.sqrt(max(value, 0.0)) for _, value in ends]
    level = math.sqrt(max(chance or 0.0, 0.0))
    most = 1.06 * max([*values, *places, level, 1e-12])
    height = line * (len(rows) + (1 if ends else 0)) + 52

    def x(value: float) -> float:
        return round(left + (right - left) * value / most, 1)

    drawn = []
    for v in ticks(0.0, most):
        drawn.append(f'<path d="M{x(v)} 16V{height - 36}"/>')
        drawn.append(f'<text x="{x(v)}" y="{height - 20}">{v:.3g}</text>')
    lines = [f'<g class="grid" aria-hidden="true">{"".join(drawn)}</g>']
    for i, (row, value) in enumerate(zip(rows, values, strict=True)):
        y, tip = 28 + line * i, f"{row['kind']}: MMD² {row['mmd2']:.3g}"
        lines.append(
            f'<g class="{"best" if i == 0 else "rest"}" data-tip="{escape(tip)}">'
            f'<rect class="hit" y="{y - line // 2}" width="480" height="{line}"/>'
            f'<text class="end" x="{left - 10}" y="{y + 4}">{escape(_short(row["kind"]))}</text>'
            f'<path d="M{left} {y}H{x(value)}"/><circle cx="{x(value)}" cy="{y}" r="5"/></g>'
        )
    if ends:
        y = 28 + line * len(rows)
        marks = [
            f'<path d="M{x(p)} {y - 8}V{y + 8}" data-tip="{escape(f"start {k}: MMD² {v:.3g}")}"/>'
            for (k, v), p in zip(ends, places, strict=True)
        ]
        lines.append(
            f'<g class="ends"><text class="end" x="{left - 10}" y="{y + 4}">all descents</text>'
            f"{''.join(marks)}</g>"
        )
    if level > 0:
        lines.append(
            f'<g class="chance"><path d="M{x(level)} 16V{height - 36}"/>'
            f'<text x="{x(level)}" y="11">chance</text></g>'
        )
    words = "MMD that each candidate leaves; the table has the numbers."
    return Html(
        f'<svg class="dots" viewBox="0 0 480 {height}" role="img" aria-label="{words}">'
        f'{"".join(lines)}<text class="axis" x="{(left + right) // 2}" y="{height - 2}">'
        "MMD, the root of MMD²</text></svg>"
    )


def _short(text: str, most: int = 22) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
