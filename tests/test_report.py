"""The report: one page, nothing fetched, nothing run, whatever names the data has."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import unshift
from fits import HOSTILE, hostile_fit
from unshift import report, scene
from unshift.datasets import make_mixture
from unshift.markup import asset
from unshift.model import linear_predictor


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    """The dictionary of a fit in which every name and value from the data is hostile."""
    return hostile_fit()


@pytest.fixture(scope="module")
def page(fitted: dict[str, Any]) -> str:
    return report.page(fitted)


class Elements(HTMLParser):
    """Tags with their attributes, all text outside scripts, and the scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data


def test_page_says_verdict_reasons_and_candidates(page: str, fitted: dict[str, Any]) -> None:
    text = Elements(page).text
    headings = ("What to do next", "Why", "Before and after", "Candidates", "features", "Classes")
    places = [text.index(fitted["headline"]), *(text.index(words) for words in headings)]
    assert places == sorted(places)
    assert all(reason in text for reason in fitted["reasons"])
    assert all(candidate["kind"] in text for candidate in fitted["candidates"])
    assert "300 rows of" in text
    assert "12 target labels given" in text


def test_names_from_the_data_are_text_wherever_they_stand(page: str) -> None:
    elements = Elements(page)
    assert len(elements.scripts) == 2, "the data and the page's own"
    assert elements.scripts[1] == asset("report.js")
    for hostile in HOSTILE:
        assert hostile in elements.text
    known = {"onload", "onerror", "onclick"}
    assert not [attrs for _, attrs in elements.tags if known & set(attrs)]
    assert "img" not in {tag for tag, _ in elements.tags}


def test_block_of_data_holds_nothing_that_could_end_it(page: str) -> None:
    block = Elements(page).scripts[0]
    assert not set("<>&\u2028\u2029") & set(block)
    data = json.loads(block)
    assert set(HOSTILE) & set(data["classes"])
    assert data["label"] in HOSTILE


def test_policy_allows_the_pages_own_script_and_style_and_nothing_else(page: str) -> None:
    elements = Elements(page)
    policy = next(
        str(attrs["content"])
        for tag, attrs in elements.tags
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    digest = hashlib.sha256(elements.scripts[1].encode()).digest()
    assert rules["script-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert "unsafe" not in policy
    assert not [attrs for tag, attrs in elements.tags if "style" in attrs]


def test_page_refers_to_nothing_outside_itself(page: str) -> None:
    for tag, attrs in Elements(page).tags:
        assert tag not in {"link", "iframe", "object", "base", "form"}
        assert not {"src", "action"} & set(attrs)
        assert (attrs.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import|https?://", page)


def test_pictures_have_text_alternatives(page: str) -> None:
    pictures = [attrs for tag, attrs in Elements(page).tags if tag == "svg"]
    assert pictures
    for attrs in pictures:
        assert attrs.get("aria-hidden") == "true" or (
            attrs.get("role") == "img" and attrs.get("aria-label")
        )


def test_marks_are_the_rows_shown_and_each_candidate_has_a_place_for_them(
    page: str, fitted: dict[str, Any]
) -> None:
    data = json.loads(Elements(page).scripts[0])
    views = re.findall(r'<div class="view".*?</svg>', page, re.DOTALL)
    assert len(views) == 2 * len(fitted["picture"]["planes"])
    after = re.search(r'<g class="target">(.*?)</g>', views[1])
    assert after is not None
    places = [int(v) for xy in re.findall(r' x="(\d+)" y="(\d+)"', after[1]) for v in xy]
    assert places == data["planes"][0]["after"][0]
    n = len(data["target"]["rows"])
    for i, one in enumerate(data["candidates"]):
        assert len(one["predicted"]) == len(one["styles"]) == len(one["sure"]) == n
        assert len(data["planes"][0]["after"][i]) == 2 * n


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
