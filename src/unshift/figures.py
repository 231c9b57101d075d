"""Pictures of the paper's experiments, from the rows of ``scoreboard`` and its neighbours.

Nothing here computes. Colours follow the paper's heat maps: orange where a pair is worse than
without adaptation, dark orange where it is anti-aligned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .plots import COLOURS, INK, OTHER, figure

Row = Mapping[str, Any]
Cells = Mapping[str, tuple[float | None, float]]

# Fill of a cell by its gain: upper limits, in points of accuracy.
WORSE, ANTI_ALIGNED = "#FBD3A6", "#D55E00"
GAINS = ((0.0005, "#FFFFFF"), (0.05, "#DCEBF5"), (0.20, "#9CC7E2"), (1.0, "#4A97C9"))
LIGHT = "#dddddd"


def heat_maps(grid: Sequence[Sequence[tuple[str, Cells]]]) -> Any:
    """Figures 6 to 8: grids of digits, a cell with the accuracy and in brackets the gain.

    Each map of ``grid``, rows of maps, is ``(title, {"a b": (accuracy, gain)})``; an accuracy of
    None shows the gain alone.
    """
    drawn = figure(5.8 * len(grid[0]), 5.4 * len(grid))
    axes = drawn.subplots(len(grid), len(grid[0]), squeeze=False)
    for line, maps in zip(axes, grid, strict=True):
        for ax, (title, cells) in zip(line, maps, strict=True):
            _heat_map(ax, title, cells)
    return drawn


def _heat_map(ax: Any, title: str, cells: Cells) -> None:
    for pair, (accuracy, gain) in cells.items():
        low, high = (int(digit) for digit in pair.split())
        _cell(ax, high, low, accuracy, gain)
    ax.set_xlim(0.5, 9.5)
    ax.set_ylim(8.5, -0.5)
    ax.set_xticks(range(1, 10))
    ax.set_yticks(range(9))
    ax.set_aspect("equal")
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelsize=10)
    ax.set_title(title, fontsize=11, color=INK, pad=10)
    for side in ax.spines.values():
        side.set_visible(False)


def _cell(ax: Any, x: int, y: int, accuracy: float | None, gain: float) -> None:
    anti = gain < -0.5 if accuracy is None else accuracy < 0.5
    if anti:
        fill = ANTI_ALIGNED
    elif gain < -GAINS[0][0]:
        fill = WORSE
    else:
        fill = next(colour for limit, colour in GAINS if gain <= limit)
    ax.fill_between([x - 0.5, x + 0.5], y - 0.5, y + 0.5, facecolor=fill, edgecolor=LIGHT)
    change = f"({round(100 * gain, 1) + 0.0:+.1f})"  # + 0.0: no minus before a zero
    text = change if accuracy is None else f"{100 * accuracy:.1f}\n{change}"
    ink = "#FFFFFF" if anti else INK
    ax.text(x, y, text, ha="center", va="center", fontsize=8, color=ink)


def label_curves(rows: Sequence[Row], unadapted: float, blind: Mapping[str, float]) -> Any:
    """Mean accuracy against the share of labels, a line for each method; squares without labels.

    A band is as wide as one standard deviation over the draws of the labels, either way.
    """
    drawn = figure(6.6, 4.2)
    ax = drawn.subplots()
    names = list(dict.fromkeys((row["method"], row["components"]) for row in rows))
    for i, name in enumerate(names):
        of_it = [row for row in rows if (row["method"], row["components"]) == name]
        x = [100 * row["labels"] for row in of_it]
        label = f"{name[0]}, p = {name[1]}"
        colour = COLOURS[i % len(COLOURS)]
        ax.plot(x, [row["mean"] for row in of_it], "o-", ms=4, color=colour, label=label)
        low, high = ([row["mean"] + sign * row["spread"] for row in of_it] for sign in (-1, 1))
        ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    for i, name in enumerate(names):
        ax.plot([0], [blind[" ".join(name)]], "s", ms=5, color=COLOURS[i % len(COLOURS)])
    ax.axhline(unadapted, color=INK, lw=1, ls="--", label="none")
    ax.set_xlabel("labelled share of the target, %")
    ax.set_ylabel("mean accuracy of 45 pairs")
    _plain(ax)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    return drawn


def row_curves(rows: Sequence[Row]) -> Any:
    """Accuracy against the rows a side: at the lowest MMD² in full, at the best minimum dashed."""
    drawn = figure(6.6, 4.2)
    ax = drawn.subplots()
    for i, p in enumerate(dict.fromkeys(row["components"] for row in rows)):
        of_it = [row for row in rows if row["components"] == p]
        x = [row["rows"] for row in of_it]
        low, best = ([row[name] for row in of_it] for name in ("turned", "best_start"))
        ax.plot(x, low, "o-", ms=4, color=COLOURS[i], label=f"lowest MMD², p = {p}")
        ax.plot(x, best, "--", color=COLOURS[i], label=f"best minimum in hindsight, p = {p}")
    ax.set_xscale("log")
    ticks = sorted({row["rows"] for row in rows})
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("rows of each domain")
    ax.set_ylabel("mean accuracy, no labels, swaps turned round")
    _plain(ax)
    ax.legend(frameon=False, fontsize=8)
    return drawn


def landscape(rows: Sequence[Row], minima: Sequence[Row]) -> Any:
    """Figure 5: MMD² over the angle of rotations and of reflections, with the local minima."""
    drawn = figure(9.0, 3.6)
    components = list(dict.fromkeys(row["component"] for row in rows))
    axes = drawn.subplots(1, len(components), sharey=True, squeeze=False)[0]
    lowest = min(row["mmd2"] for row in minima)
    highest = max(row["mmd2"] for row in rows)
    for ax, component in zip(axes, components, strict=True):
        of_it = [row for row in rows if row["component"] == component]
        ax.plot([row["degrees"] for row in of_it], [row["mmd2"] for row in of_it], color=COLOURS[0])
        for row in minima:
            if row["component"] == component:
                best = row["mmd2"] == lowest
                colour = COLOURS[5] if best else OTHER
                ax.plot(row["degrees"], row["mmd2"], "o", color=colour, ms=7, zorder=3)
                text = f"{row['accuracy']:.0%} right"
                ax.annotate(
                    text,
                    (row["degrees"], row["mmd2"]),
                    textcoords="offset points",
                    xytext=(0, -16),
                    ha="center",
                    fontsize=9,
                )
        ax.set_title(f"{component}s", fontsize=10, color=INK)
        ax.set_xlabel("angle α, degrees")
        ax.set_xlim(0, 360)
        ax.set_xticks(range(0, 361, 90))
        _plain(ax)
    axes[0].set_ylim(-0.08 * highest, 1.05 * highest)
    axes[0].set_ylabel("MMD²")
    return drawn


def starts(rows: Sequence[Row]) -> Any:
    """How often each kind of start finds the lowest minimum, and how often the right one."""
    drawn = figure(7.0, 0.9 + 0.4 * len(rows))
    ax = drawn.subplots()
    places = [len(rows) - i for i in range(len(rows))]
    for name, shift, colour, label in (
        ("global", 0.18, OTHER, "lowest MMD² of all"),
        ("right", -0.18, COLOURS[0], "rotation of the true maps"),
    ):
        at = [place + shift for place in places]
        ax.barh(at, [100 * row[name] for row in rows], height=0.34, color=colour, label=label)
    ax.set_yticks(places, [row["start"] for row in rows])
    ax.set_xlim(0, 100)
    ax.set_xlabel(f"% of {rows[0]['seeds']} mixtures")
    _plain(ax)
    drawn.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return drawn


def _plain(ax: Any) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=9)
    ax.grid(color=LIGHT, lw=0.6)
    ax.set_axisbelow(True)
