"""The report: one page, nothing fetched, nothing run, whatever names the data has."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unshift
from unshift import report, scene, summary
from unshift.datasets import make_mixture
from unshift.labels import read_labels
from unshift.model import Model, linear_predictor

HOSTILE = "<script>document.title = 'taken'</script>\"'&"
CHROMIUM = Path("/usr/bin/chromium")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    """The dictionary of a fit with hostile names and 12 labelled target rows."""
    mixture = make_mixture(4)
    classes = np.array(["plain", HOSTILE])
    y_source = classes[mixture.y_source]
    y_target = classes[mixture.y_target].astype(object)
    y_target[12:] = None
    alignment = unshift.align(
        mixture.X_source, mixture.X_target, y_source, y_target, same_features=False, random_state=0
    )
    predictor = linear_predictor(alignment.source(mixture.X_source), y_source, "classification")
    model = Model(alignment, predictor, HOSTILE)
    labels = read_labels(y_target, 300, "y_target")
    shown = summary.fitted(model, mixture.X_source, y_source, mixture.X_target, labels)
    return shown | {"command": f"unshift fit {HOSTILE}"}


@pytest.fixture(scope="module")
def page(fitted: dict[str, Any]) -> str:
    return report.page(fitted, {"domains": (PIXEL, f"words {HOSTILE}")})


class Elements(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_says_verdict_reasons_and_candidates(page: str, fitted: dict[str, Any]) -> None:
    text = Elements(page).text
    assert text.index("Aligned.") < text.index("Why") < text.index("Candidates")
    assert all(reason in text for reason in fitted["reasons"])
    assert all(candidate["kind"] in text for candidate in fitted["candidates"])
    assert "300 target rows" in text
    assert "12 target labels given" in text


def test_names_from_the_data_are_text_wherever_they_stand(page: str) -> None:
    elements = Elements(page)
    assert "script" not in {tag for tag, _ in elements.tags}
    assert HOSTILE in elements.text
    words = next(attrs["alt"] for tag, attrs in elements.tags if tag == "img")
    assert words == f"words {HOSTILE}"


def test_page_refers_to_nothing_outside_itself(page: str) -> None:
    for tag, attrs in Elements(page).tags:
        assert tag not in {"link", "iframe", "object", "script"}
        for name in ("src", "href", "action"):
            assert (attrs.get(name) or "data:").startswith("data:")
    assert not re.search(r"url\(|@import|https?://", page)
    assert "default-src 'none'" in page


def test_page_without_pictures_is_whole(fitted: dict[str, Any]) -> None:
    elements = Elements(report.page(fitted, {}))
    assert "img" not in {tag for tag, _ in elements.tags}
    assert "To repeat it" in elements.text


def test_boundary_is_where_two_classes_are_equally_likely() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2)) * [1.0, 30.0] + [5.0, -2.0]
    predictor = linear_predictor(X, (X @ [3.0, 0.1] > 15).astype(int), "classification")
    line = scene.boundary(predictor)
    assert line is not None
    a, b, c = line
    on_it = np.array([[x, (c - a * x) / b] for x in (3.0, 5.0, 7.0)])
    np.testing.assert_allclose(predictor.predict_proba(on_it), 0.5, atol=1e-9)


def test_linear_predictor_is_the_default_estimator() -> None:
    from unshift.predictors import default_estimator

    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3)) * [1.0, 10.0, 0.1] + 4.0
    for y in (rng.integers(2, size=150), np.array(["a", "b", "c"])[rng.integers(3, size=150)]):
        ours = linear_predictor(X, y, "classification")
        theirs = default_estimator("classification").fit(X, y)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
        assert (ours.predict(X) == theirs.predict(X)).all()
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(150)
    numbers = linear_predictor(X, y, "regression").predict(X)
    np.testing.assert_allclose(numbers, default_estimator("regression").fit(X, y).predict(X))


def test_unturned_map_is_the_whitening_alone() -> None:
    mixture = make_mixture(1)
    alignment = unshift.align(mixture.X_source, mixture.X_target, random_state=0)
    maps = [scene.unturned(c) for c in alignment.candidates if c.rotation is not None]
    rows = [map_(mixture.X_target) for map_ in maps]
    np.testing.assert_allclose(np.cov(rows[0].T, bias=True), np.eye(2), atol=1e-10)
    for other in rows[1:]:
        np.testing.assert_allclose(other, rows[0], atol=1e-8)


def test_panels_show_every_candidate_in_the_sources_whitened_space() -> None:
    mixture = make_mixture(1)
    X, y, X_target = mixture.X_source, mixture.y_source, mixture.X_target
    aligned = unshift.align(X, X_target, y, random_state=0)
    for i, candidate in enumerate(aligned.candidates):
        alignment = aligned.prefer(i)
        predictor = linear_predictor(np.asarray(alignment.source(X)), y, "classification")
        shown = summary.fitted(Model(alignment, predictor, "y"), X, y, X_target, None)["panels"]
        source = shown[1]["source"]["points"]
        assert (shown[0]["source"]["points"] == source).all()
        if candidate.rotation is not None:
            there, k = candidate.target(X_target), min(2, candidate.rotation.shape[0])
            points = shown[1]["target"]["points"]
            np.testing.assert_allclose(points[:, :k], there[:, :k], atol=1e-8)
            np.testing.assert_allclose(source[:, :k].var(axis=0), 1.0)
        else:
            assert shown[1]["boundary"] is None, "it is a line in other coordinates"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The machine's own chromium, driven by playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.mark.parametrize("width", [1000, 390])
def test_browser_shows_the_page_without_requests_errors_or_sideways_scrolling(
    browser: Any, page: str, tmp_path: Path, width: int
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    tab = browser.new_page(viewport={"width": width, "height": 800})
    said: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(file.as_uri())
    assert tab.title() == f"unshift: {HOSTILE}"
    assert tab.evaluate("document.images[0].naturalWidth") == 1
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    assert not said
    tab.close()
