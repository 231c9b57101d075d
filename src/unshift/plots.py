"""Pictures of the dictionaries that ``scene`` and ``demo`` make. Nothing here computes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ._extras import extra

Array = npt.NDArray[Any]

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
OTHER, INK = "#999999", "#222222"
POINT = 16
# Labelled rows that are ringed; more would cover what they mark
RINGS = 60


def figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of so many inches, without pyplot and its global state."""
    return extra("matplotlib.figure", "plots").Figure((width, height), layout="constrained")


def png(drawn: Any, dpi: int = 120) -> bytes:
    """The figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def new_axes(rows: int, columns: int, width: float, height: float) -> Array:
    """Axes (rows, columns) of so many inches each, in a figure of pyplot, for notebooks to show."""
    pyplot = extra("matplotlib.pyplot", "plots")
    size = (width * columns, height * rows)
    drawn = pyplot.figure(figsize=size, layout="constrained")
    axes: Array = drawn.subplots(rows, columns, squeeze=False)
    return axes


def laid_out(count: int, columns: int, axes: Sequence[Any] | None) -> Array:
    """So many axes (count,): those given, or new ones with at most ``columns`` side by side."""
    if axes is None:
        grid = new_axes(-(-count // columns), columns, 3.4, 3.7).ravel()
        for spare in grid[count:]:
            spare.remove()
        return grid[:count]
    given = np.asarray(axes, dtype=object).ravel()
    if given.size != count:
        raise ValueError(
            f"axes should hold {count} matplotlib axes: one for the rows as they come, and one for "
            f"each candidate; got {given.size}."
        )
    return given


def panels(views: Sequence[dict[str, Any]], label: str, axes: Any = None) -> Any:
    """Scatter plots of the views, one legend; those of the same axes share limits. The figure.

    ``label`` names what the colours stand for; nothing where all are one. Without ``axes`` they
    stand side by side in a figure of their own, and the legend below.
    """
    if axes is None:
        axes = figure(3.1 * len(views), 3.9).subplots(1, len(views), squeeze=False)[0]
    drawn = axes[0].figure
    below = drawn.get_layout_engine() is not None
    known = np.concatenate([view["source"]["labels"] for view in views])
    palette = None if _is_numeric(known) else _palette(known)
    for ax, view in zip(axes, views, strict=True):
        _scatter(ax, view, (known.min(), known.max()) if palette is None else palette)
    for names in {view["axes"] for view in views}:
        same = [i for i, view in enumerate(views) if view["axes"] == names]
        _share_limits([axes[i] for i in same], [views[i] for i in same])
    if palette is None:
        drawn.colorbar(axes[-1].collections[1], ax=list(axes), label=_literal(label), shrink=0.8)
        _legend(axes, [], below)
        return drawn
    name = _literal(label)
    colours = [(f"{name} {_literal(str(c))}", colour) for c, colour in palette.items() if name]
    if np.unique(known).size > len(palette):
        colours.append(("other", OTHER))
    _legend(axes, colours, below)
    return drawn


def _literal(text: str, most: int = 16) -> str:
    """Text as it is, not as a formula between dollar signs, and not too long for a legend."""
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return short.replace("$", r"\$")


def _is_numeric(labels: Array) -> bool:
    """Numbers with fractions are shown on a scale, everything else as classes."""
    return labels.dtype.kind == "f" and bool((labels != np.round(labels)).any())


def _palette(labels: Array) -> dict[Any, str]:
    """A colour for each of the most frequent classes."""
    classes, counts = np.unique(labels, return_counts=True)
    frequent = np.sort(np.argsort(-counts, kind="stable")[: len(COLOURS)])
    return dict(zip(classes[frequent].tolist(), COLOURS, strict=False))


def _colours(labels: Array, scale: Any) -> dict[str, Any]:
    """How to colour points: by the palette of classes or, for a pair of limits, by value."""
    if isinstance(scale, dict):
        return {"color": [scale.get(label, OTHER) for label in labels.tolist()]}
    return {"c": labels, "vmin": scale[0], "vmax": scale[1], "cmap": "cividis"}


def _scatter(ax: Any, view: dict[str, Any], scale: Any) -> None:
    """Source as pale discs, target as crosses in the same colours, marked rows ringed."""
    for name, marker, style in (
        ("source", "o", {"alpha": 0.35, "linewidths": 0}),
        ("target", "x", {"linewidths": 0.9}),
    ):
        points, labels = view[name]["points"], view[name]["labels"]
        size = 1.6 * POINT if name == "source" else POINT
        ax.scatter(*points.T, s=size, marker=marker, **_colours(labels, scale), **style)
    marked = view["target"]["points"][view["target"]["marked"]]
    if 0 < marked.shape[0] <= RINGS:
        ring = {"facecolors": "none", "edgecolors": INK, "linewidths": 1.3}
        ax.scatter(*marked.T, s=90, label="labelled target row", **ring)
    ax.set_title(view["title"], fontsize=10, color=INK)
    ax.set_xlabel(view["axes"][0], fontsize=9)
    ax.set_ylabel(view["axes"][1], fontsize=9)
    ax.tick_params(labelsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _share_limits(axes: Sequence[Any], views: Sequence[dict[str, Any]]) -> None:
    """The same limits in all these axes, and each view's boundary right across them."""
    points = np.concatenate(
        [view[name]["points"] for view in views for name in ("source", "target")]
    )
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.05 * np.maximum(high - low, 1e-12)
    for ax, view in zip(axes, views, strict=True):
        ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
        ax.set_ylim(low[1] - margin[1], high[1] + margin[1])
        if view["boundary"] is not None:
            _line(ax, *view["boundary"])
    for ax in axes[1:]:
        ax.set_ylabel("")


def _line(ax: Any, a: float, b: float, c: float) -> None:
    """The line ``a x + b y = c``."""
    square = a * a + b * b
    if square > 0:
        foot = (a * c / square, b * c / square)
        ax.axline(foot, (foot[0] - b, foot[1] + a), color=INK, lw=1, ls="--", label="boundary")


def _legend(axes: Sequence[Any], colours: Sequence[tuple[str, str]], below: bool) -> None:
    """What is drawn, and only that: domains, classes, and what has a label.

    Below all panels, or in the last where their figure keeps no place for it.
    """
    line = extra("matplotlib.lines", "plots").Line2D
    entries = [
        ("source", {"marker": "o", "color": OTHER, "alpha": 0.6, "markersize": 6}),
        ("target", {"marker": "x", "color": INK, "markersize": 5}),
        *((name, {"marker": "s", "color": colour, "markersize": 6}) for name, colour in colours),
    ]
    handles = [line([], [], linestyle="none", label=name, **style) for name, style in entries]
    labelled: dict[str, Any] = {}
    for ax in axes:
        artists, names = ax.get_legend_handles_labels()
        labelled |= dict(zip(names, artists, strict=True))
    shown = [*handles, *labelled.values()]
    names = [*(name for name, _ in entries), *labelled]
    if not below:
        axes[-1].legend(shown, names, fontsize=8)
        return
    style = {"loc": "outside lower center", "ncols": 2 * min(3, len(axes)), "frameon": False}
    axes[0].figure.legend(shown, names, fontsize=9, **style)


def discrepancies(
    rows: Sequence[dict[str, Any]],
    chance: float | None,
    ends: Sequence[tuple[str, float]],
    ax: Any,
) -> Any:
    """MMD, the root of MMD², of the candidates, best first from the top, beside chance's.

    ``ends`` are the starts of the search and the MMD² at which their descents ended, in a line
    below the candidates. Draws on ``ax``, and gives it back.
    """
    places = np.arange(len(rows))[::-1]
    colours = [COLOURS[0]] + [OTHER] * (len(rows) - 1)
    values, descents = (np.sqrt(np.maximum(v, 0.0)) for v in (_mmd2(rows), [v for _, v in ends]))
    ax.scatter(values, places, s=40, c=colours, zorder=3, clip_on=False)
    if descents.size:
        ax.scatter(descents, np.full(descents.size, -1.0), s=60, marker="|", color=OTHER)
    names = [_literal(row["kind"], 30) for row in rows]
    lines = [*places.tolist(), *([-1] if descents.size else [])]
    ax.set_yticks(lines, [*names, *(["all descents"] if descents.size else [])])
    ax.set_ylim(min(lines) - 0.6, len(rows) - 0.4)
    level = np.sqrt(max(chance or 0.0, 0.0))
    ax.set_xlim(0.0, 1.15 * max(values.max(), level, *descents, 1e-12))
    ax.set_xlabel("MMD, the root of MMD²; the candidate in force is blue")
    ax.set_title("What the candidates leave", fontsize=10, color=INK)
    ax.grid(axis="y", color="#dddddd", linewidth=0.8)
    if level > 0:
        ax.axvline(level, color=INK, linestyle="--", linewidth=1)
        ax.annotate(
            "chance",
            (level, 1),
            xycoords=("data", "axes fraction"),
            xytext=(3, -2),
            textcoords="offset points",
            va="top",
            fontsize=8,
        )
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _mmd2(rows: Sequence[dict[str, Any]]) -> list[float]:
    return [row["mmd2"] for row in rows]
