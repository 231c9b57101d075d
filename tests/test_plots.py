"""Pictures: drawn from plain dictionaries, without pyplot, whatever the names in the data are."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from unshift import plots


def view(labels: np.ndarray, **changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    domains = {
        name: {
            "points": rng.standard_normal((labels.size, 2)) + shift,
            "labels": labels,
            "marked": np.arange(0),
        }
        for name, shift in (("source", 0.0), ("target", 5.0))
    }
    return {"title": "title", "axes": ("x", "y"), "boundary": None} | domains | changes


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_legend_names_what_is_drawn_and_only_that() -> None:
    classes = np.array(["cat", "dog"] * 10)
    assert legend(plots.panels([view(classes)], "pet")) == [
        "source",
        "target",
        "pet cat",
        "pet dog",
    ]
    marked = view(classes, boundary=(1.0, 2.0, 0.5))
    marked["target"]["marked"] = np.array([1, 3])
    assert legend(plots.panels([marked], "pet"))[4:] == ["labelled target row", "boundary"]
    many = view(np.arange(20) % 10)
    assert legend(plots.panels([many], "digit"))[-1] == "other"


def test_axes_are_labelled_and_titled() -> None:
    for ax in plots.panels([view(np.arange(4) % 2)], "class").axes:
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("x", "y", "title")


def test_numbers_are_shown_on_a_scale_with_their_name() -> None:
    drawn = plots.panels([view(np.linspace(0.0, 1.0, 20))], "height")
    assert drawn.axes[-1].get_ylabel() == "height"
    assert legend(drawn) == ["source", "target"]


def test_boundary_is_the_line_it_was_given() -> None:
    a, b, c = 1.0, 2.0, 0.5
    line = plots.panels([view(np.arange(4) % 2, boundary=(a, b, c))], "class").axes[0].lines[0]
    for x, y in (line.get_xy1(), line.get_xy2()):
        assert a * x + b * y == pytest.approx(c)


def test_panels_of_the_same_axes_share_limits() -> None:
    far = view(np.arange(4) % 2)
    other = view(np.arange(4) % 2, axes=("x'", "y'"))
    far["source"]["points"] = far["source"]["points"] + 100.0
    views = [other, view(np.arange(4) % 2), far]
    axes = plots.panels(views, "class").axes
    assert axes[1].get_xlim() == axes[2].get_xlim()
    assert axes[0].get_xlim() != axes[1].get_xlim()
    for ax, shown in zip(axes, views, strict=True):
        x = np.concatenate([shown[name]["points"][:, 0] for name in ("source", "target")])
        assert ax.get_xlim()[0] < x.min() < x.max() < ax.get_xlim()[1]


@pytest.mark.parametrize("name", [r"$\frac", "$x$", "_hidden", "<script>", "very long " * 20])
def test_names_are_shown_as_they_are(name: str) -> None:
    labels = np.array([name, "other one"])
    assert plots.png(plots.panels([view(labels)], name)).startswith(b"\x89PNG")
    assert plots.png(plots.panels([view(np.array([0.5, 0.7]))], name)).startswith(b"\x89PNG")
    assert len(legend(plots.panels([view(labels)], name))) == 4


def test_discrepancies_of_candidates_stand_beside_chance() -> None:
    rows = [{"kind": "anchor", "mmd2": 0.01}, {"kind": "identity", "mmd2": 0.0}]
    ax = plots.discrepancies(rows, 0.0025).axes[0]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["anchor", "identity"]
    places = ax.collections[0].get_offsets()
    np.testing.assert_allclose(np.asarray(places), [[0.1, 1.0], [0.0, 0.0]])
    assert ax.lines[0].get_xdata()[0] == pytest.approx(0.05)
    assert ax.get_xlim()[0] == 0.0


def test_same_dictionary_gives_the_same_bytes() -> None:
    first, second = (plots.png(plots.panels([view(np.arange(9) % 3)], "class")) for _ in range(2))
    assert first == second


def test_no_pyplot_and_no_global_state() -> None:
    code = (
        "import sys\nfrom unshift import plots\nfigure = plots.figure(2, 2)\nplots.png(figure)\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_matplotlib_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'unshift\[plots\]'"):
        plots.figure(1, 1)
