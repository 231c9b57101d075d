"""The report in a real browser: nothing asked of anyone, no error, every control does its work."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fits import hostile_fit, number_fit, shifted_fit
from unshift import report

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
)
NEXT_FRAME = "() => new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)))"
MARKS = "marks => marks.map(m => ['class', 'href', 'x', 'y'].map(a => m.getAttribute(a)))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The machine's own chromium, driven by playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no chromium at {CHROMIUM}")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    fits = {
        "hostile": hostile_fit(),
        "shifted": shifted_fit(),
        "many": shifted_fit(classes=15, n=400),
        "numbers": number_fit(),
    }
    folder = tmp_path_factory.mktemp("reports")
    for name, fitted in fits.items():
        (folder / f"{name}.html").write_text(report.page(fitted), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in fits}


class Opened:
    """A tab with all that it said and asked for."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        options = {"viewport": {"width": 1100, "height": 900}, "reduced_motion": "reduce"} | options
        self.context = browser.new_context(**options)
        self.tab = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.file = file
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.context.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(file.as_uri())

    def __enter__(self) -> Any:
        return self.tab

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.context.close()
        if kind is None:
            assert not self.said
            assert self.asked == [self.file.as_uri()], "no request left"


def data_of(tab: Any) -> dict[str, Any]:
    data: dict[str, Any] = tab.evaluate("JSON.parse(document.getElementById('data').textContent)")
    return data


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (375, "dark")])
@pytest.mark.parametrize("name", ["hostile", "shifted", "many", "numbers"])
def test_page_asks_for_nothing_fails_nowhere_and_does_not_scroll_sideways(
    browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    view = {"width": width, "height": 740}
    with Opened(browser, pages[name], viewport=view, color_scheme=scheme) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.title().startswith("unshift: ")
        assert tab.locator(".controls:visible").count() >= 1, "the script ran"
        shade = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (shade == "rgb(255, 255, 255)") == (scheme == "light")


def test_script_draws_the_candidate_in_force_as_the_page_does_without_it(
    browser: Any, pages: dict[str, Path]
) -> None:
    for name in ("shifted", "many", "numbers"):
        drawn = []
        for runs in (False, True):
            with Opened(browser, pages[name], java_script_enabled=runs) as tab:
                file = tab.locator("#stage")
                assert file.locator(".controls").is_visible() == runs
                if not runs:
                    # scripts of the page do not run, those of the test do
                    assert tab.locator("[data-for]:visible").count() == 1
                    assert tab.locator("svg.panel:visible").count() == 2
                drawn.append(tab.locator(".panel use").evaluate_all(MARKS))
        assert drawn[0] == drawn[1]


def test_choosing_a_candidate_moves_the_target_and_changes_what_is_said(
    browser: Any, pages: dict[str, Path]
) -> None:
    with Opened(browser, pages["shifted"]) as tab:
        data = data_of(tab)
        tab.select_option("#candidate", "2")
        after = tab.locator("[data-plane='0'] [data-view='after']")
        marks = after.locator(".target use").evaluate_all(MARKS)
        flat = [int(v) for _, _, x, y in marks for v in (x, y)]
        assert flat == data["planes"][0]["after"][2]
        kind = data["candidates"][2]["kind"]
        assert after.locator("h3").text_content() == f"After: {kind}"
        assert tab.locator("[data-for]:visible caption").text_content() == kind
        tab.click("[data-show='1']")
        assert tab.input_value("#candidate") == "1"
        assert tab.locator("tr.shown").count() == 1
        assert tab.get_attribute("[data-show='1']", "aria-pressed") == "true"


def test_moving_marks_arrive(browser: Any, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["shifted"], reduced_motion="no-preference") as tab:
        data = data_of(tab)
        tab.select_option("#candidate", "3")
        tab.wait_for_timeout(900)
        marks = tab.locator("[data-plane='0'] [data-view='after'] .target use")
        flat = [int(v) for _, _, x, y in marks.evaluate_all(MARKS) for v in (x, y)]
        assert flat == data["planes"][0]["after"][3]


def test_plane_domains_and_classes_can_be_chosen(browser: Any, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["shifted"]) as tab:
        tab.select_option("#plane", "1")
        assert tab.locator("[data-plane='0']").is_hidden()
        assert tab.locator("[data-plane='1']").is_visible()
        tab.uncheck("[data-side='source']")
        assert tab.locator(".panel .source:visible").count() == 0
        assert tab.locator("[data-plane='1'] .target:visible").count() == 2
        tab.check("[data-side='source']")
        assert tab.locator("[data-plane='1'] .source:visible").count() == 2
        tab.click("[data-style='1']")
        data = data_of(tab)
        styles = data["source"]["styles"] + data["candidates"][0]["styles"]
        faint = 4 * sum(style != 1 for style in styles)  # two planes of two panels
        assert tab.locator("use.faint").count() == faint
        tab.click("[data-style='1']")
        assert tab.locator("use.faint").count() == 0


def test_pointer_and_keys_tell_the_rows(browser: Any, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["shifted"]) as tab:
        data, tip = data_of(tab), tab.locator("#tip")
        panel = tab.locator("[data-plane='0'] [data-view='after'] .panel")
        mark = tab.locator("[data-plane='0'] [data-view='after'] .target use").nth(17)
        mark.scroll_into_view_if_needed()
        tab.evaluate(NEXT_FRAME)  # the page hides what it told when it is scrolled, a frame later
        mark.hover(force=True)
        said = str(tip.text_content())
        assert " row " in said
        assert "sample" in said
        assert "kind: kind" in said
        assert tab.locator(".near:visible").count() == 2, "the same row in both panels"
        panel.focus()
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowRight")
        sure, seen = data["candidates"][0]["sure"][1], data["candidates"][0]["predicted"][1]
        told = [f"target row {data['target']['rows'][1]}", data["target"]["ids"][1]]
        told.append(f"predicted kind: {data['classes'][seen]}, {sure:.0f} %")
        told += [f"given: {given}" for given in data["target"]["given"][1:2] if given]
        assert tip.text_content() == "\n".join(told)
        tab.keyboard.press("Escape")
        assert tip.is_hidden()
        tab.locator(".dots [data-tip]").first.hover()
        assert data["candidates"][0]["kind"] in str(tip.text_content())


@pytest.mark.parametrize("name", ["shifted", "hostile"])
def test_rows_worth_labelling_are_saved_as_csv(
    browser: Any, pages: dict[str, Path], name: str
) -> None:
    with Opened(browser, pages[name], accept_downloads=True) as tab:
        data = data_of(tab)
        with tab.expect_download() as waiting:
            tab.click("#save")
        saved = waiting.value
        assert saved.suggested_filename == "rows-to-label.csv"
        text = Path(saved.path()).read_text("utf-8")
        assert list(csv.reader(io.StringIO(text, newline=""))) == data["labelling"]
        assert data["labelling"][0][0] == "row"
        assert len(data["labelling"]) == 11


def test_all_controls_are_reached_by_the_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["shifted"]) as tab:
        wanted = tab.evaluate(
            "[...document.querySelectorAll('select, button, input, summary, [tabindex]')]"
            ".filter(e => e.checkVisibility()).length"
        )
        reached = set()
        for _ in range(3 * wanted):
            tab.keyboard.press("Tab")
            reached.add(
                tab.evaluate(
                    "e => [...document.querySelectorAll('select, button, input, summary,"
                    " [tabindex]')].indexOf(document.activeElement)"
                )
            )
        assert len(reached - {-1}) == wanted


def test_page_prints(browser: Any, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["shifted"], color_scheme="dark") as tab:
        printed = tab.pdf()
        assert printed.startswith(b"%PDF")
        assert printed.count(b"/Type /Page\n") >= 2
        tab.emulate_media(media="print")
        assert tab.locator(".controls:visible").count() == 0
        assert tab.locator("svg.panel:visible").count() == 2
        ink = tab.evaluate("getComputedStyle(document.body).color")
        assert ink == "rgb(31, 35, 40)", "dark on white, also from a dark screen"
