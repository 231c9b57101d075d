"""Pictures: drawn from plain dictionaries, without pyplot, whatever the names in the data are."""

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import matplotlib as mpl

import unshift
from unshift import AlignedClassifier, Alignment, plots
from unshift.datasets import make_mixture

mpl.use("Agg")


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


def test_discrepancies_of_candidates_and_starts_stand_beside_chance() -> None:
    rows = [{"kind": "anchor", "mmd2": 0.01}, {"kind": "identity", "mmd2": 0.0}]
    ends = [("random", 0.04), ("identity", 0.0)]
    own = plots.figure(4, 3).subplots()
    ax = plots.discrepancies(rows, 0.0025, ends, own)
    assert ax is own
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        "anchor",
        "identity",
        "all descents",
    ]
    places, descents = (np.asarray(drawn.get_offsets()) for drawn in ax.collections)
    np.testing.assert_allclose(places, [[0.1, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(descents, [[0.2, -1.0], [0.0, -1.0]])
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


@pytest.fixture(scope="module")
def alignment() -> Alignment:
    """Unlike columns, classes with hostile names, five labels of the target."""
    mixture = make_mixture(4)
    classes = np.array(["<b>plain</b>", "$other"])
    given = classes[mixture.y_target].astype(object)
    given[5:] = None
    domains = (mixture.X_source, mixture.X_target, classes[mixture.y_source], given)
    return unshift.align(*domains, same_features=False, random_state=0)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def test_plot_shows_both_domains_before_and_under_a_candidate(alignment: Alignment) -> None:
    before, after = alignment.plot(1)
    assert before.get_title() == "Whitened, not rotated"
    candidate = alignment.candidates[1]
    assert after.get_title().startswith(candidate.kind)
    source, target, rings = (np.asarray(drawn.get_offsets()) for drawn in after.collections)
    assert alignment.evidence is not None
    assert alignment.evidence.trained is not None
    assert alignment.evidence.labelled is not None
    given = alignment.evidence.labelled.rows
    rows = alignment.evidence.space.domains[1].sampled()
    np.testing.assert_allclose(source, alignment.source(alignment.evidence.trained.rows))
    np.testing.assert_allclose(target[: len(rows)], candidate.target(rows), atol=1e-9)
    np.testing.assert_allclose(rings, candidate.target(given), atol=1e-9)
    names = [text.get_text() for text in after.figure.legends[0].get_texts()]
    assert names[:2] == ["source", "target"]
    assert names[-1] == "labelled target row"


def test_plots_draw_on_the_axes_they_are_given(alignment: Alignment) -> None:
    axes = plots.figure(6, 3).subplots(1, 2)
    drawn = alignment.plot(axes=axes)
    assert list(drawn) == list(axes)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in axes)
    own = plots.figure(4, 3).subplots()
    assert alignment.plot_mmd(ax=own) is own
    with pytest.raises(ValueError, match=r"axes should hold 2 matplotlib axes: .* got 1"):
        alignment.plot(axes=[own])


def test_plot_candidates_shows_the_rows_as_they_come_and_the_best(alignment: Alignment) -> None:
    axes = alignment.plot_candidates(2)
    kinds = [candidate.kind for candidate in alignment.candidates[:2]]
    assert [ax.get_title().partition("\n")[0] for ax in axes[1:]] == kinds
    assert len(alignment.plot_candidates(100)) == len(alignment.candidates) + 1
    assert axes[1].get_xlim() == axes[2].get_xlim()


def test_plots_without_labels_and_of_numbers() -> None:
    rng = np.random.default_rng(0)
    X, X_target = rng.gamma(2.0, 1.0, (120, 3)), 2.0 * rng.gamma(2.0, 1.0, (100, 3)) + 1.0
    before, after = unshift.align(X, X_target, random_state=0).plot()
    assert before.get_title() == "As they come"
    assert legend(after.figure) == ["source", "target"]
    numbers = unshift.align(X, X_target, X @ [1.0, 0.5, -1.0], random_state=0)
    numbers.plot()
    assert "regression" in numbers.plot()[1].get_xlabel()


def test_alignment_from_a_file_says_why_it_draws_no_rows(
    alignment: Alignment, tmp_path: Path
) -> None:
    alignment.save(tmp_path / "a.unshift")
    loaded = unshift.load(tmp_path / "a.unshift")
    with pytest.raises(ValueError, match=r"no rows of data.*drawn\. Map rows with alig"):
        loaded.plot()
    assert len(loaded.plot_mmd().get_yticks()) == len(loaded.candidates)
    assert loaded._repr_html_() == alignment._repr_html_()


def test_plot_without_matplotlib_says_how_to_get_it(
    alignment: Alignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'unshift\[plots\]'"):
        alignment.plot()


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert not self.open, "all tags are closed"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_card_of_an_alignment_has_verdict_maps_and_candidates() -> None:
    frame = pytest.importorskip("pandas").DataFrame
    mixture = make_mixture(4)
    names = ["<script>alert(1)</script>", *"abcd"]
    columns = (frame(mixture.X_source), frame(mixture.X_target, columns=names))
    alignment = unshift.align(*columns, mixture.y_source, same_features=False, random_state=0)
    page = alignment._repr_html_()
    text = Tags(page).text
    assert "<script" not in page
    assert names[0] in text
    assert all(reason in text for reason in alignment.diagnosis.reasons)
    assert all(candidate.kind in text for candidate in alignment.candidates[:8])
    assert "color:inherit" in page
    assert repr(alignment.diagnosis) == str(alignment.diagnosis)


def test_estimators_keep_their_diagram_and_add_what_was_learned() -> None:
    mixture = make_mixture(4)
    classifier = AlignedClassifier(same_features=False, random_state=0)
    before = classifier._repr_mimebundle_()["text/html"]
    assert "AlignedClassifier" in before
    classifier.fit(mixture.X_source, mixture.y_source, X_target=mixture.X_target)
    card = classifier.alignment_._repr_html_()
    for page in (classifier._repr_mimebundle_()["text/html"], classifier._repr_html_()):
        assert page.endswith(card)
        assert "AlignedClassifier" in page.removesuffix(card)
