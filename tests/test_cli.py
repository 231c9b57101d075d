"""The command line, run in process: what it writes, what it prints, how it fails."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unshift
from unshift.cli import main
from unshift.datasets import make_mixture
from unshift.demo import demonstrate
from unshift.model import load_model

LABEL = "kind"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source, target (first 12 rows labelled), target without labels; a fit of the first two."""
    folder = tmp_path_factory.mktemp("files")
    mixture, names = make_mixture(4), np.array(["benign", "malign"])
    source = pd.DataFrame(mixture.X_source, columns=[f"a{i}" for i in range(5)])
    source[LABEL] = names[mixture.y_source]
    target = pd.DataFrame(mixture.X_target, columns=[f"b{i}" for i in range(5)])
    target.to_csv(folder / "plain.csv", index=False)
    labels = names[mixture.y_target].astype(object)
    labels[12:] = None
    target.insert(2, LABEL, labels)
    source.to_csv(folder / "source.csv", index=False)
    target.to_csv(folder / "target.csv", index=False)
    command = ["fit", str(folder / "source.csv"), str(folder / "target.csv")]
    assert main([*command, "--label", LABEL, "--out", str(folder / "fit")]) == 0
    return folder


@pytest.fixture
def here(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of files, as the working directory."""
    monkeypatch.chdir(files)
    return files


def test_demo_prints_accuracies_and_writes_picture_and_alignment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    out, err = capsys.readouterr()
    for step in ("without adaptation", "not rotated", "without labels", "with 5 labels"):
        assert step in out
    assert err == "", "the progress bar is for terminals only"
    assert (tmp_path / "demo" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert unshift.load(tmp_path / "demo" / "alignment.unshift").n_components == 2


def test_demo_has_a_seed_that_swaps_classes_until_five_labels_settle_it() -> None:
    # What the README says of seed 4.
    result, _ = demonstrate(4)
    accuracies = [step["accuracy"] for step in result["accuracies"]]
    assert accuracies[2] < 0.1 < 0.9 < accuracies[3]
    assert result["without_labels"].startswith("Ambiguous.")


def test_demo_without_matplotlib_still_prints_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["demo", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "aligned with 5 labels" in out
    assert "pip install 'unshift[plots]'" in out
    assert [path.name for path in tmp_path.iterdir()] == ["alignment.unshift"]


def test_fit_writes_model_predictions_and_report(here: Path) -> None:
    written = {path.name for path in (here / "fit").iterdir()}
    assert written == {"metrics.json", "model.unshift", "predictions.csv", "report.html"}
    predictions = pd.read_csv(here / "fit" / "predictions.csv")
    assert list(predictions.columns) == [LABEL, "probability benign", "probability malign"]
    np.testing.assert_allclose(predictions.iloc[:, 1:].sum(axis=1), 1.0)
    truth = np.array(["benign", "malign"])[make_mixture(4).y_target]
    assert (predictions[LABEL] == truth).mean() > 0.99, "twelve labels choose among alignments"


def test_report_has_its_pictures_without_matplotlib(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["fit", "source.csv", "plain.csv", "--label", LABEL, "--out", "new"]
    assert main(words) == 0
    assert "<svg" in (here / "new" / "report.html").read_text("utf-8")


def test_columns_in_another_order_are_put_in_the_sources(here: Path) -> None:
    source = pd.read_csv(here / "source.csv")
    source[[*source.columns[::-1]]].drop(columns=LABEL).to_csv(here / "new.csv", index=False)
    words = ["fit", "source.csv", "new.csv", "--label", LABEL, "--out", "new"]
    assert main(words) == 0
    alignment = unshift.load(here / "new" / "model.unshift")
    assert alignment.same_features
    assert alignment.target.names_in == tuple(f"a{i}" for i in range(5))


def test_transform_applies_the_alignments_maps(here: Path) -> None:
    alignment = unshift.load(here / "fit" / "model.unshift")
    rows = pd.read_csv(here / "plain.csv")
    for to, mapping in (("shared", alignment.target), ("source", alignment.target_to_source)):
        words = ["transform", "fit/model.unshift", "target.csv", "--to", to, "--out", "out.tsv.gz"]
        assert main(words) == 0
        pd.testing.assert_frame_equal(pd.read_csv(here / "out.tsv.gz", sep="\t"), mapping(rows))


def test_parquet_is_read_as_csv_is(here: Path) -> None:
    pytest.importorskip("pyarrow")
    pd.read_csv(here / "target.csv").to_parquet(here / "target.parquet")
    assert main(["predict", "fit/model.unshift", "target.parquet", "--out", "out.csv"]) == 0
    assert (here / "out.csv").read_bytes() == (here / "fit" / "predictions.csv").read_bytes()


def test_numbers_with_fractions_are_predicted_as_numbers(here: Path) -> None:
    mixture = make_mixture(4)
    source = pd.DataFrame(mixture.X_source, columns=[f"a{i}" for i in range(5)])
    source["height"] = mixture.Z_source @ [1.0, 0.5]
    source.to_csv(here / "heights.csv", index=False)
    words = ["fit", "heights.csv", "plain.csv", "--label", "height", "--out", "heights"]
    assert main(words) == 0
    predictions = pd.read_csv(here / "heights" / "predictions.csv")
    assert list(predictions.columns) == ["height"]
    assert predictions["height"].dtype == np.float64


def test_inspect_shows_verdict_and_candidates(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", "fit/model.unshift"]) == 0
    out = capsys.readouterr().out
    alignment = unshift.load(here / "fit" / "model.unshift")
    assert alignment.diagnosis.reasons[0] in out
    assert all(candidate.kind in out for candidate in alignment.candidates)
    assert "b0, b1, b2, b3, b4" in out


def test_saved_model_predicts_the_same_bits(here: Path, tmp_path: Path) -> None:
    model = load_model(here / "fit" / "model.unshift")
    model.save(tmp_path / "again.unshift")
    again = load_model(tmp_path / "again.unshift")
    rows = np.random.default_rng(0).standard_normal((20, 2))
    first, second = (m.predictor.predict_proba(rows) for m in (model, again))
    assert (first == second).all()
    assert (model.predictor.predict(rows) == again.predictor.predict(rows)).all()
    assert again.label == LABEL


BAD = {
    "missing file": (("fit", "nope.csv", "plain.csv"), "nope.csv: No such file or directory"),
    "unknown kind of file": (
        ("fit", "fit/report.html", "plain.csv"),
        "expected a name that ends in .csv",
    ),
    "ragged": (("fit", "source.csv", "ragged.csv"), "ragged.csv could not be read"),
    "empty": (("fit", "source.csv", "empty.csv"), "empty.csv is empty"),
    "header only": (("fit", "source.csv", "header.csv"), "has no column of numbers to go by"),
    "wrong encoding": (("fit", "source.csv", "latin.csv"), "latin.csv could not be read"),
    "no such label": (("fit", "plain.csv", "plain.csv"), "lacks column 'kind' of --label"),
    "empty cell": (("fit", "source.csv", "hole.csv"), "row 2 of the data has no finite number"),
    "new class": (("fit", "source.csv", "class.csv"), "label column lacks: ['strange']"),
    "not a model": (("predict", "plain.csv", "plain.csv"), "not a file that unshift saved"),
    "no predictor": (("predict", "bare.unshift", "plain.csv"), "holds no predictor"),
    "truncated model": (("predict", "cut.unshift", "plain.csv"), "damaged"),
    "other columns": (("predict", "fit/model.unshift", "source.csv"), "lacks 5 of the 5 columns"),
}


@pytest.fixture(scope="module")
def bad_files(files: Path) -> Path:
    """The files, and broken ones beside them."""
    plain = pd.read_csv(files / "plain.csv")
    (files / "ragged.csv").write_text("b0,b1\n1,2\n3,4,5\n")
    (files / "empty.csv").write_text("")
    (files / "header.csv").write_text("b0,b1,b2,b3,b4\n")
    (files / "latin.csv").write_bytes("b0,naïve\n1,é\n".encode("latin-1"))
    plain.assign(note="some words").to_csv(files / "text.csv", index=False)
    hole = plain.copy()
    hole.loc[1, "b1"] = np.nan
    hole.to_csv(files / "hole.csv", index=False)
    plain.assign(kind="strange").to_csv(files / "class.csv", index=False)
    unshift.load(files / "fit" / "model.unshift").save(files / "bare.unshift")
    (files / "cut.unshift").write_bytes((files / "fit" / "model.unshift").read_bytes()[:-9])
    return files


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_two(
    bad_files: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (command, *names), message = BAD[case]
    out = bad_files / "unwritten.csv"
    options = ("--label", LABEL) if command == "fit" else ()
    assert main([command, *(str(bad_files / n) for n in names), *options, "--out", str(out)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith("unshift: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (bad_files / "unwritten.csv").exists()


def test_what_fails_midway_leaves_the_older_file(here: Path, tmp_path: Path) -> None:
    good = pd.read_csv(here / "plain.csv")
    bad = good.astype(object)
    bad.loc[250, "b1"] = "oops"
    bad.to_csv(tmp_path / "bad.csv", index=False)
    out = tmp_path / "out.csv"
    out.write_text("older")
    model = str(here / "fit" / "model.unshift")
    assert main(["predict", model, str(tmp_path / "bad.csv"), "--out", str(out)]) == 2
    assert out.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "out.csv"]


def test_missing_pyarrow_is_named_with_its_extra(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["predict", "fit/model.unshift", "plain.csv", "--out", "out.csv"]) == 2
    assert "pip install 'unshift[cli]'" in capsys.readouterr().err


def test_interruption_is_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unshift.cli_show.demonstrate", interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "unshift: interrupted\n"


@pytest.mark.parametrize(
    "command", [[], ["demo"], ["fit"], ["predict"], ["transform"], ["inspect"]]
)
def test_help_documents_the_exit_codes(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    assert "exit codes:\n  0 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("0.9", 0.9), ("all", None), ("auto", "auto")]
)
def test_components_are_given_as_align_takes_them(text: str, value: object) -> None:
    from unshift.cli import make_parser

    words = ["fit", "a.csv", "b.csv", "--label", "y", "--out", "d", "--components", text]
    assert make_parser().parse_args(words).components == value


def test_progress_is_drawn_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from unshift.cli_common import search_progress

    assert search_progress() is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    show = search_progress()
    assert show is not None
    show("descent", 1, 2)
    assert "1/2" in capsys.readouterr().err
