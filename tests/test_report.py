"""The report: one page, nothing fetched, nothing run, whatever names the data has."""

import base64
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import unshift
from fits import HOSTILE, fit, hostile_fit, number_fit, shifted_fit
from unshift import report, scene, summary, svg
from unshift.answers import reasons
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
    assert all(reason in text for reason in reasons(fitted))
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


def luminance(colour: str) -> float:
    """Relative luminance as the web's guidelines for contrast have it."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    lights = sorted((luminance(one), luminance(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def schemes() -> list[dict[str, str]]:
    """Variables of the light scheme, and of the dark one."""
    blocks = re.findall(r":root \{(.*?)\}", asset("report.css"), re.DOTALL)
    return [
        {
            name: value if len(value) == 7 else "#" + "".join(2 * c for c in value[1:])
            for name, value in re.findall(r"--([\w]+): (#\w+);", block)
        }
        for block in blocks
    ]


def test_text_and_marks_stand_out_in_both_schemes() -> None:
    assert len(schemes()) == 2
    for colours in schemes():
        for ground in ("page", "raised"):
            for text in ("ink", "soft", "accent", "care", "well"):
                assert contrast(colours[text], colours[ground]) >= 4.5, text
            for mark in (*(f"k{i}" for i in range(svg.COLOURED)), "other"):
                assert contrast(colours[mark], colours[ground]) >= 3.0, mark


def test_classes_differ_in_colour_or_shape_and_neighbours_in_both() -> None:
    looks = [(svg.kind_of(style), svg.shape_of(style)) for style in range(svg.SHAPED)]
    assert len(set(looks)) == svg.SHAPED
    for one, other in itertools.pairwise(looks):
        assert one[0] != other[0]
        assert one[1] != other[1]


def test_frame_holds_nearly_all_points_and_puts_the_rest_on_its_edge() -> None:
    rng = np.random.default_rng(0)
    cloud = rng.standard_normal((1000, 2))
    cloud[0] = 1e9
    frame = svg.frame_around(cloud)
    assert frame.high[0] < 10.0
    assert 1 <= frame.beyond(cloud) <= 40
    places = frame.place(cloud)
    assert places[0].tolist() == [svg.RIGHT, svg.TOP]
    assert (places >= [svg.LEFT, svg.TOP]).all()
    assert (places <= [svg.RIGHT, svg.BOTTOM]).all()


@pytest.mark.parametrize(("low", "high"), [(-3.2, 5.1), (0.0, 1e-9), (1e6, 1e6 + 3), (-1e12, 7.0)])
def test_ticks_are_few_and_within(low: float, high: float) -> None:
    found = svg.ticks(low, high)
    assert 2 <= len(found) <= 6
    assert all(low <= tick <= high for tick in found)


def test_summary_adds_up(fitted: dict[str, Any]) -> None:
    rows = fitted["rows"][1]
    assert sum(one["rows"] for one in fitted["confidence"]) == rows
    for one in fitted["confidence"]:
        assert sum(one["bins"]) == one["rows"]
    for key in ("source", "expected", "target"):
        assert sum(one[key] for one in fitted["balance"]) == pytest.approx(1.0)
    for one in fitted["labelling"]["rows"]:
        assert sum(share for _, share in one["votes"]) <= 1.0 + 1e-9
    shown = fitted["picture"]["target"]
    marked = np.asarray(shown["rows"])[shown["marked"]].tolist()
    assert marked == sorted(one["row"] for one in fitted["labelling"]["rows"])
    assert min(marked) >= 12, "rows whose label is known need none"


def test_numbers_are_shown_on_a_scale_and_by_their_quantiles() -> None:
    fitted = number_fit()
    assert not fitted["balance"]
    assert not fitted["confidence"]
    below = [one["target"] for one in fitted["quantiles"]]
    assert below == sorted(below)
    elements = Elements(report.page(fitted))
    data = json.loads(elements.scripts[0])
    assert data["classes"] is None
    assert set(data["source"]["styles"]) <= set(range(svg.STEPS))
    assert "Numbers predicted" in elements.text


def test_frequent_classes_have_looks_of_their_own_and_the_rest_share_one() -> None:
    fitted = shifted_fit(classes=15, n=400)
    data = json.loads(Elements(report.page(fitted)).scripts[0])
    labels, styles = np.array(data["source"]["labels"]), np.array(data["source"]["styles"])
    counts = np.bincount(labels)
    rest = np.unique(labels[styles == -1])
    assert rest.size == counts.size - svg.SHAPED
    assert counts[rest].max() <= np.delete(counts, rest).min()


def test_what_was_said_of_the_files_and_the_call_are_there(fitted: dict[str, Any]) -> None:
    told = fitted | {
        "rows": (10_000_000, 5_000),
        "rows_kept": (300, 300),
        "options": {"n_components": 0.5, "random_state": 7},
    }
    text = Elements(report.page(told)).text
    assert "300 of the 10,000,000 source rows" in text
    assert "n_components=0.5, random_state=7," in text


def test_page_of_many_rows_and_long_identifiers_stays_small() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.gamma(2.0, 1.0, (4_000, 4)), rng.integers(2, size=4_000)
    ids = {"text": ["word " * 1000] * 4_000}
    fitted = fit(X + y[:, None], y, 2.0 * X, ids=(ids, ids))
    shown = [len(fitted["picture"][side]["rows"]) for side in ("source", "target")]
    assert max(shown) <= summary.SHOWN + summary.SUGGESTED
    assert len(report.page(fitted).encode()) < 1.5e6
