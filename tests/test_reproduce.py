"""`unshift reproduce`: what it writes, what its pages show, what it refuses."""

import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from bench import paper_page

from unshift import networks, pages, reproduce
from unshift.cli import main

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("simulated") / "deep"
    return out, reproduce.simulated(out, seeds=2, n_jobs=1, command="unshift <b>&</b>")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("digits")
    return out, reproduce.digits(
        out, ("fast_0",), pairs=[(4, 9)], ten=False, draws=2, n_jobs=1, command="unshift <b>"
    )


SIMULATED = {
    "landscape": ["component", "degrees", "mmd2"],
    "minima": ["component", "degrees", "mmd2", "right", "accuracy"],
    "restarts": ["seed_point", "from", "component", "degrees", "mmd2", "right", "accuracy"],
    "anti_alignment": ["alignment", "mmd2", "accuracy"],
    "starts": ["seed", "start", "mmd2", "global", "right", "accuracy", "minima"],
    "claims": ["claim", "published", "found", "verdict"],
}
DIGITS = {
    "accuracies": [
        "network",
        "pair",
        "method",
        "components",
        "labels",
        "draw",
        "accuracy",
        "chosen",
    ],
    "published": ["pair", "labels", "gain"],
    "wanted": ["network", "wanted", "reached", "limit", "short"],
    "claims": ["network", "claim", "published", "found", "verdict"],
    "dimensions": ["network", "pair", "positive_eigenvalues"],
}


@pytest.mark.parametrize(("name", "columns"), SIMULATED.items())
def test_simulated_tables_are_tidy(simulated, name: str, columns: list[str]) -> None:
    assert list(pd.read_csv(simulated[0] / f"{name}.csv").columns) == columns


@pytest.mark.parametrize(("name", "columns"), DIGITS.items())
def test_digits_tables_are_tidy(digits, name: str, columns: list[str]) -> None:
    assert list(pd.read_csv(digits[0] / f"{name}.csv").columns) == columns


def test_figures_are_written_and_shown(simulated, digits) -> None:
    for out, result in (simulated, digits):
        files = list(out.glob("*.png"))
        assert len(files) >= 5
        assert all(file.read_bytes().startswith(PNG) for file in files)
        page = (out / reproduce.PAGE).read_text("utf-8")
        assert page.count("data:image/png;base64,") == len(files)
        assert not result["missing"]


class Tags(HTMLParser):
    """Checks that every tag is closed, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs) -> None:
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_pages_are_whole_and_escape_what_they_are_told(simulated, digits) -> None:
    for out, result in (simulated, digits):
        page = (out / reproduce.PAGE).read_text("utf-8")
        assert "<b>" not in page
        tags = Tags()
        tags.feed(page)
        assert not tags.open
        assert result["command"] in tags.text
        assert not re.search(r"(src|href)=\"(?!data:)", page), "self-contained"


def test_digits_page_shows_published_protocol_and_default_side_by_side(digits) -> None:
    tags = Tags()
    tags.feed((digits[0] / reproduce.PAGE).read_text("utf-8"))
    for text in ("paper, its text", "paper, its notebook", "unshift", "published", "hindsight"):
        assert text in tags.text


def test_hostile_names_are_escaped() -> None:
    assert "<script>" not in pages._soft("<script>")
    claim = {"claim": "<i>", "verdict": "<u>", "published": "<s>", "found": "<a>"}
    page = pages._claims([claim])
    assert not re.search(r"<(i|u|s|a)>", page, re.IGNORECASE)


def test_told_lines_name_every_network_and_claim(digits, simulated) -> None:
    told = "\n".join(reproduce.told_of_digits(digits[1]))
    assert "Network fast_0" in told
    assert told.count("CONFIRMED") + told.count("REFUTED") == 6
    assert "I " in "\n".join(reproduce.told_of_simulated(simulated[1]))
    assert str(digits[0]) in reproduce.told_of_files(*digits)


def test_without_matplotlib_the_page_has_no_pictures_and_says_why(monkeypatch, tmp_path) -> None:
    def absent(*_):
        raise ModuleNotFoundError("This needs matplotlib")

    monkeypatch.setattr(reproduce.plots, "png", absent)
    result = reproduce.simulated(tmp_path, seeds=1, n_jobs=1)
    assert result["missing"] == "This needs matplotlib"
    assert "The page has no pictures. This needs" in reproduce.told_of_files(tmp_path, result)
    assert "<img" not in (tmp_path / reproduce.PAGE).read_text("utf-8")


def test_networks_are_named_alone_together_or_all() -> None:
    assert reproduce.chosen_networks("all") == ("paper", "fast_0", "fast_1", "mlp")
    assert reproduce.chosen_networks("mlp, paper") == ("mlp", "paper")
    with pytest.raises(ValueError, match=r"no network 'resnet': expected 'all' or some of paper"):
        reproduce.chosen_networks("paper,resnet")


def test_retraining_without_torch_ends_with_one_line_and_fetches_nothing(
    capsys, monkeypatch, tmp_path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(reproduce, "load_images", lambda *_: pytest.fail("images were fetched"))
    assert main(["reproduce", "digits", "--retrain", "--out", str(tmp_path)]) == 2
    assert "pip install 'unshift[torch]'" in capsys.readouterr().err


def test_unknown_network_and_stray_data_end_with_one_line(capsys, monkeypatch, tmp_path) -> None:
    out = ["--out", str(tmp_path)]
    assert main(["reproduce", "digits", "--networks", "resnet", *out]) == 2
    assert "no network 'resnet'" in capsys.readouterr().err
    assert main(["reproduce", "digits", "--data", str(tmp_path), *out]) == 2
    assert "it goes with --retrain" in capsys.readouterr().err
    monkeypatch.setattr(reproduce, "import_torch", lambda: None)
    retrain = ["reproduce", "digits", "--retrain", "--data", str(tmp_path), *out]
    assert main(retrain) == 2
    assert "mnist.npz is not there" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["0", "-1", "many"])
def test_counts_are_whole_numbers_above_zero(capsys, wrong: str) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "simulated", "--out", "x", "--seeds", wrong])
    assert "expected a whole number above zero" in capsys.readouterr().err


def test_command_runs_and_prints(capsys, tmp_path) -> None:
    command = ["reproduce", "simulated", "--out", str(tmp_path), "--seeds", "1", "--jobs", "1"]
    assert main(command) == 0
    assert "unshift, no labels" in capsys.readouterr().out
    assert (tmp_path / reproduce.PAGE).exists()


def test_retrained_trains_the_networks_asked_for(monkeypatch, tmp_path) -> None:
    seen = []

    def retrain(images, folder, *, names, progress):
        progress("paper", 1, 2, 0.5)
        seen.append((images, folder, names))

    monkeypatch.setattr(reproduce, "import_torch", lambda: None)
    monkeypatch.setattr(reproduce, "load_images", lambda data, cache: (data, cache))
    monkeypatch.setattr(reproduce, "retrain", retrain)
    told = []
    reproduce.retrained(tmp_path, ("paper",), None, lambda *step: told.append(step))
    reproduce.retrained(tmp_path, ("mlp",), tmp_path / "data")
    assert seen == [
        ((None, tmp_path / "images"), tmp_path, ("paper",)),
        ((tmp_path / "data", None), tmp_path, ("mlp",)),
    ]
    assert told == [("paper", 1, 2)]
    assert reproduce.retrain is not networks.retrain


def test_tables_that_cannot_be_written_leave_no_page(tmp_path) -> None:
    with pytest.raises(ValueError, match="fields not in fieldnames"):
        reproduce._write(tmp_path, {"t": [{"a": 1}, {"a": 1, "b": 2}]}, "page")
    assert not (tmp_path / reproduce.PAGE).exists()


@pytest.fixture(scope="module")
def whole(simulated, digits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `python -m bench.paper` leaves, with one network in the places of two."""
    out = tmp_path_factory.mktemp("whole")
    shutil.copytree(simulated[0], out / paper_page.SIMULATED)
    shutil.copytree(digits[0], out / paper_page.OTHERS)
    (out / paper_page.DIGITS).mkdir()
    for file in digits[0].iterdir():
        copy = out / paper_page.DIGITS / file.name.replace("fast_0", "paper")
        if file.suffix == ".csv":
            copy.write_text(file.read_text("utf-8").replace("fast_0", "paper"), "utf-8")
        else:
            copy.write_bytes(file.read_bytes())
    (out / paper_page.TIMES).write_text("command,seconds,processor seconds\nx,1.5,2.5\n", "utf-8")
    return out


def test_the_page_of_the_paper_has_a_place_for_each_section(whole) -> None:
    marks = re.findall(
        r"<!-- (?!end of )(.*) -->", (paper_page.DOCS / "paper.md").read_text("utf-8")
    )
    absent = {"network fast_1", "network mlp"}
    assert sorted(set(marks) - absent) == sorted(paper_page.sections(whole))
    assert absent < set(marks)


def test_the_page_of_the_paper_shows_the_numbers_of_the_tables(whole, digits, tmp_path) -> None:
    shutil.copy(paper_page.DOCS / "paper.md", tmp_path)
    paper_page.write_page(whole, tmp_path)
    page = (tmp_path / "paper.md").read_text("utf-8")
    for row in digits[1]["headlines"]["fast_0"]:
        assert f"{row['mean']:.3f}" in page
    for claim in digits[1]["claims"]["fast_0"]:
        assert claim["found"] in page
    pictures = set(re.findall(r"!\[.*\]\((.*)\)", page))
    assert pictures == {path.name for path in tmp_path.glob("*.png")}


def test_a_pair_is_listed_where_the_default_is_far_behind(whole) -> None:
    rows = paper_page._both(whole, "accuracies")
    assert "(nothing to show)" in paper_page.pairs(rows)
    for row in rows:
        if row["method"] == "none":
            row["accuracy"] = 1.5
    assert paper_page.pairs(rows).count("| 4 9 |") == 2
