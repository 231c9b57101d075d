"""unshift fit on real files: what it reads, what it writes, and what it leaves when it fails."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import unshift
from commands import LABEL, NAMES, frames, run, signal_once, start, written
from unshift.cli import main
from unshift.model import load_model

OURS = ["metrics.json", "model.unshift", "predictions.csv", "report.html"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    written(folder)
    assert fit_in(folder, "source.csv", "target.csv", "--id", "sample") == 0
    return folder


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def fit_in(folder: Path, source: str, target: str, *more: str, out: str = "fit") -> int:
    words = ["fit", str(folder / source), str(folder / target), "--label", LABEL]
    return main([*words, "--out", str(folder / out), *more])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_model_and_predictions_are_those_of_python(here: Path) -> None:
    source, target = frames()
    columns = [f"b{i}" for i in range(5)]
    alignment = unshift.align(
        source[[f"a{i}" for i in range(5)]],
        target[columns],
        source[LABEL],
        target[LABEL],
        random_state=0,
    )
    model = load_model(here / "fit/model.unshift")
    # The order of rows in memory, which differs, is worth a last digit.
    np.testing.assert_allclose(
        model.alignment.target.matrix, alignment.target.matrix, rtol=1e-6, atol=1e-9
    )
    assert model.alignment.diagnosis.verdict == alignment.diagnosis.verdict
    predictions = pd.read_csv(here / "fit/predictions.csv", dtype={"sample": str})
    assert list(predictions["sample"]) == list(target["sample"]), "identifiers keep their zeros"
    assert list(predictions[LABEL]) == list(model.fold().predict(target[columns].to_numpy()))


def test_answer_says_verdict_expectation_and_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit_in(here, "source.csv", "target.csv", "--id", "sample", out="said") == 0
    told = capsys.readouterr().out
    shown = json.loads((here / "said/metrics.json").read_text())
    first = " ".join(told.split("\n\n")[0].split())
    assert first == shown["headline"]
    places = [told.index(f"What {what}:") for what in ("was done", "to expect", "to do next")]
    assert places == sorted(places)
    assert "12 of them labelled" in " ".join(told.split())


def as_npz(folder: Path, source: pd.DataFrame, target: pd.DataFrame) -> tuple[str, str]:
    kinds = source[LABEL].to_numpy(str)
    np.savez(folder / "source.npz", X=source.drop(columns=LABEL).to_numpy(), kind=kinds)
    np.save(folder / "target.npy", target.drop(columns=["sample", LABEL]).to_numpy())
    return "source.npz", "target.npy"


def as_anndata(folder: Path, source: pd.DataFrame, target: pd.DataFrame) -> tuple[str, str]:
    for name, frame in (("source", source), ("target", target)):
        with h5py.File(folder / f"{name}.h5ad", "w") as file:
            X = frame.drop(columns=[LABEL, "sample"], errors="ignore")
            if name == "source":
                file["X"] = X.to_numpy()
            else:  # sparse by rows
                dense = X.to_numpy()
                file["X/data"], file["X/indices"] = dense.ravel(), np.tile(np.arange(5), 300)
                file["X/indptr"] = np.arange(301) * 5
                file["X"].attrs.update({"encoding-type": "csr_matrix", "shape": dense.shape})
            file["var/_index"] = [column.encode() for column in X.columns]
            file["var"].attrs["_index"] = "_index"
            file["obs/cell"] = [f"cell {i}".encode() for i in range(len(frame))]
            file["obs"].attrs.update({"_index": "cell", "column-order": [LABEL]})
            codes = pd.Categorical(frame[LABEL], categories=NAMES).codes
            file[f"obs/{LABEL}/codes"] = codes
            file[f"obs/{LABEL}/categories"] = [value.encode() for value in NAMES]
    return "source.h5ad", "target.h5ad"


def as_arrow(folder: Path, source: pd.DataFrame, target: pd.DataFrame) -> tuple[str, str]:
    source.astype({LABEL: "category"}).to_parquet(folder / "source.parquet")
    feather.write_feather(target, folder / "target.feather")
    return "source.parquet", "target.feather"


def as_european(folder: Path, source: pd.DataFrame, target: pd.DataFrame) -> tuple[str, str]:
    source.to_csv(folder / "source_eu.csv", index=False, sep=";", decimal=",")
    target.to_csv(folder / "target.tsv.gz", index=False, sep="\t", encoding="utf-16")
    return "source_eu.csv", "target.tsv.gz"


@pytest.mark.parametrize("form", [as_npz, as_anndata, as_arrow, as_european])
def test_every_format_gives_the_same_alignment(here: Path, form: object) -> None:
    source, target = form(here, *frames())  # type: ignore[operator]
    drop = ("--drop", "sample", "--features-differ")
    assert fit_in(here, source, target, *drop, out="other") == 0
    assert fit_in(here, "source.csv", "target.csv", *drop, out="same") == 0
    other, same = (load_model(here / name / "model.unshift") for name in ("other", "same"))
    if form is as_npz:  # without target labels
        assert fit_in(here, "source.csv", target, *drop, out="same") == 0
        same = load_model(here / "same/model.unshift")
    np.testing.assert_array_equal(other.alignment.target.matrix, same.alignment.target.matrix)
    assert other.alignment.source.names_in == (
        None if form is as_npz else same.alignment.source.names_in
    )


def test_rows_too_many_to_keep_count_in_the_moments_and_are_sampled(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = frames()[1]
    assert (
        fit_in(
            here,
            "source.csv",
            "target.csv",
            "--drop",
            "sample",
            "--rows-kept",
            "150",
            out="sampled",
        )
        == 0
    )
    assert "of 300 rows all counted in the moments" in capsys.readouterr().err
    model = load_model(here / "sampled/model.unshift")
    values = target[[f"b{i}" for i in range(5)]].to_numpy()
    np.testing.assert_allclose(model.alignment.target.center, values.mean(axis=0), rtol=1e-12)
    shown = json.loads((here / "sampled/metrics.json").read_text())
    assert shown["rows"] == [300, 300]
    assert shown["labelled"] == 12, "no label is lost to the sample"
    assert shown["rows_kept"] == [150, 162]
    assert len(pd.read_csv(here / "sampled/predictions.csv")) == 300


def test_text_becomes_columns_of_ones_and_stays_so_for_new_rows(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    for name, shift in (("here", 0.0), ("there", 0.5)):
        kind = rng.integers(0, 2, 200)
        frame = pd.DataFrame(rng.standard_normal((200, 3)) + shift, columns=list("abc"))
        frame["a"] += 2 * kind
        frame["colour"] = np.array(["red", "green", "blue"])[rng.integers(0, 3, 200)]
        if name == "here":
            frame[LABEL] = NAMES[kind]
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    frame.assign(colour="violet").to_csv(tmp_path / "new.csv", index=False)
    assert fit_in(tmp_path, "here.csv", "there.csv") == 0
    assert "left out, since they hold no numbers: colour" in capsys.readouterr().err
    assert fit_in(tmp_path, "here.csv", "there.csv", "--one-hot") == 0
    assert "left out" not in capsys.readouterr().err
    model = str(tmp_path / "fit/model.unshift")
    expected = ("a", "b", "c", "colour=blue", "colour=green", "colour=red")
    assert load_model(model).alignment.target.names_in == expected
    for name in ("there", "new"):
        words = ["predict", model, str(tmp_path / f"{name}.csv"), "--out", str(tmp_path / "o.csv")]
        assert main(words) == 0
        unknown = "no column of the model: colour=violet" in capsys.readouterr().err
        assert unknown == (name == "new")


def test_partly_equal_columns_are_spoken_of_and_may_be_reduced_to_the_common_ones(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, _ = frames()
    source.to_csv(tmp_path / "here.csv", index=False)
    other = source.drop(columns=LABEL).assign(pressure=range(300))[
        ["pressure", *source.columns[4::-1]]
    ]
    other.to_csv(tmp_path / "there.csv", index=False)
    assert fit_in(tmp_path, "here.csv", "there.csv") == 0
    said = capsys.readouterr().err
    assert "--common goes by the columns that both have" in said
    assert "column 'pressure' counts rows" in said
    assert fit_in(tmp_path, "here.csv", "there.csv", "--common", "--baseline", "none") == 0
    alignment = load_model(tmp_path / "fit/model.unshift").alignment
    assert alignment.target.names_in == tuple(source.columns[:5])
    assert alignment.candidates[0].kind == "no adaptation"
    assert fit_in(tmp_path, "here.csv", "there.csv", "--features-differ", "--baseline", "none") == 2
    assert "needs columns that correspond" in capsys.readouterr().err


def test_every_option_of_the_alignment_is_taken(here: Path) -> None:
    words = "--components 2 --bandwidth 1.5 --choice paper --scale none --shrinkage 0.1 --seed 3"
    words += " --outliers keep --loss joint --task classification --starts 4 --jobs 1"
    words += " --predictor lda --features-same --predictions-format parquet --drop sample"
    assert fit_in(here, "source.csv", "target.csv", *words.split(), out="options") == 0
    assert "predictions.parquet" in names(here / "options")
    alignment = load_model(here / "options/model.unshift").alignment
    assert alignment.bandwidth == 1.5
    assert alignment.same_features
    settings = json.loads((here / "options/metrics.json").read_text())["settings"]
    assert settings["choice"] == "paper"


def test_killed_in_the_midst_the_older_result_stays_and_nothing_else(
    here: Path, tmp_path: Path
) -> None:
    words = ["fit", here / "source.csv", here / "target.csv", "--label", LABEL, "--out"]
    assert fit_in(here, "source.csv", "target.csv", out=str(tmp_path / "older")) == 0
    before = (tmp_path / "older/model.unshift").read_bytes()
    for sent in (signal.SIGINT, signal.SIGKILL):
        for out in ("older", "new"):
            partial = tmp_path / f"{out}.partial"
            said = signal_once(start(*words, tmp_path / out), partial, sent)
            assert "Traceback" not in said
            assert not (tmp_path / "new").exists()
            assert names(tmp_path / "older") == OURS
            assert (tmp_path / "older/model.unshift").read_bytes() == before
        if sent == signal.SIGINT:
            assert said == "unshift: interrupted\n"
            assert names(tmp_path) == ["older"]


def test_other_files_are_in_the_way_unless_forced_and_stay(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("three years")
    assert fit_in(here, "source.csv", "target.csv", out=str(tmp_path)) == 2
    assert "holds other files (thesis.tex)" in capsys.readouterr().err
    assert fit_in(here, "source.csv", "target.csv", "--force", out=str(tmp_path)) == 0
    assert names(tmp_path) == [*OURS, "thesis.tex"]
    (tmp_path / "new.partial").mkdir()
    (tmp_path / "new.partial/notes").write_text("mine")
    assert fit_in(here, "source.csv", "target.csv", out=str(tmp_path / "new")) == 2
    assert "new.partial holds other files (notes): move it away" in capsys.readouterr().err
    assert fit_in(here, "source.csv", "target.csv", out=str(tmp_path / "thesis.tex")) == 3
    assert "is a file: --out names a folder" in capsys.readouterr().err


def test_names_from_the_data_are_only_names(here: Path, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    for frame, name in zip(frames(), ("here", "there"), strict=True):
        frame = frame.rename(columns={"a0": hostile, "b0": hostile, "sample": "<b>id"})
        frame[LABEL] = frame[LABEL].replace({"benign": hostile})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    assert fit_in(tmp_path, "here.csv", "there.csv", "--id", "<b>id") == 0
    page = (tmp_path / "fit/report.html").read_text("utf-8")
    assert "alert(1)" in page
    assert hostile not in page
    assert "<b>id" not in page


def test_ten_thousand_columns_are_read_and_predicted_and_maps_too_large_are_refused(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = frames()
    mixing = np.random.default_rng(0).standard_normal((5, 10_000))
    X = target.drop(columns=["sample", LABEL]).to_numpy()[:60] @ mixing
    wide = pd.DataFrame(X, columns=[f"wavelength {j}" for j in range(10_000)])
    wide.to_parquet(tmp_path / "wide.parquet")
    source[:60].to_csv(tmp_path / "few.csv", index=False)
    assert fit_in(tmp_path, "few.csv", "wide.parquet") == 0
    model = load_model(tmp_path / "fit/model.unshift")
    words = ["predict", str(tmp_path / "fit/model.unshift"), str(tmp_path / "wide.parquet")]
    assert main([*words, "--out", str(tmp_path / "out.parquet")]) == 0
    out = pd.read_parquet(tmp_path / "out.parquet").filter(like="probability").to_numpy()
    np.testing.assert_array_equal(out, model.fold().predict_proba(X))
    kinds = pd.DataFrame({LABEL: source[LABEL][:60]})
    pd.concat([wide, kinds], axis=1).to_parquet(tmp_path / "both.parquet")
    capsys.readouterr()
    assert fit_in(tmp_path, "both.parquet", "wide.parquet") == 2
    assert "would hold 100,000,000 numbers" in capsys.readouterr().err


def broken(folder: Path) -> dict[str, str]:
    """Files that cannot be used, by name, with a part of what is said of them."""
    _, target = frames()
    target.to_parquet(folder / "cut.parquet")
    (folder / "cut.parquet").write_bytes((folder / "cut.parquet").read_bytes()[:-100])
    table = pa.Table.from_pandas(target.drop(columns=["sample", LABEL]))
    pq.write_table(table, folder / "changed.parquet", use_dictionary=False)
    content = bytearray((folder / "changed.parquet").read_bytes())
    content[4:400] = b"\xff" * 396
    (folder / "changed.parquet").write_bytes(content)
    (folder / "ragged.csv").write_text("b0,b1\n1,2\n3,4,5\n")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("b0,b1,b2,b3,b4\n")
    (folder / "latin.csv").write_bytes("b0,naïve\n1,é\n".encode("latin-1"))
    (folder / "twice.csv").write_text("b0,b0,b1\n1,2,3\n")
    (folder / "hole.csv").write_text("b0,b1\n1,2\n3,\n4,5\n")
    (folder / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08\x00rubbish")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "rubbish.npy").write_bytes(b"rubbish")
    np.save(folder / "cube.npy", np.zeros((2, 2, 2)))
    (folder / "rubbish.h5ad").write_bytes(b"rubbish")
    (folder / "rubbish.feather").write_bytes(b"rubbish")
    (folder / "folder.csv").mkdir()
    return {
        "cut.parquet": "cut.parquet could not be read",
        "changed.parquet": "changed.parquet could not be read",
        "ragged.csv": "row 3 has 3 cells where the line of names has 2",
        "empty.csv": "empty.csv is empty",
        "header.csv": "has no column of numbers to go by",
        "latin.csv": "--encoding latin-1",
        "twice.csv": "more than one column named 'b0'",
        "hole.csv": "row 2 of the data has no finite number in column 'b1'",
        "cut.csv.gz": "is damaged",
        "picture.png": "of no known kind",
        "rubbish.npy": "rubbish.npy could not be read",
        "cube.npy": "expected rows and columns",
        "rubbish.h5ad": "rubbish.h5ad could not be read",
        "rubbish.feather": "rubbish.feather could not be read",
        "folder.csv": "is a folder",
        "nowhere.csv": "nowhere.csv: No such file or directory",
    }


def test_broken_files_are_one_sentence_and_leave_nothing(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = broken(tmp_path)
    before = names(tmp_path)
    for name, message in said.items():
        words = ["fit", str(here / "source.csv"), str(tmp_path / name), "--label", LABEL]
        assert main([*words, "--out", str(tmp_path / "out")]) == 2, name
        printed = capsys.readouterr()
        assert message in printed.err.splitlines()[-1], (name, printed.err)
        assert printed.err.startswith("unshift: ")
        assert printed.err.count("\n") == 1
        assert printed.out == ""
        assert names(tmp_path) == before


def test_encodings_can_be_said(here: Path, tmp_path: Path) -> None:
    source, target = frames()
    for frame, name in ((source, "here"), (target, "there")):
        renamed = frame.rename(columns={"a0": "größe", "b0": "größe"})
        renamed.to_csv(tmp_path / f"{name}.csv", index=False, encoding="latin-1")
    words = ("--encoding", "latin-1", "--drop", "sample")
    assert fit_in(tmp_path, "here.csv", "there.csv", *words) == 0
    assert "größe" in (load_model(tmp_path / "fit/model.unshift").alignment.target.names_in or ())


def test_no_memory_is_one_line_and_exit_code_three(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("unshift.fitting.align", exhausted)
    assert fit_in(here, "source.csv", "target.csv", out="none") == 3
    assert "not enough memory" in capsys.readouterr().err
    assert "none" not in names(here)


def test_a_pipe_can_be_either_file_but_not_both(here: Path) -> None:
    common = ["--label", LABEL, "--id", "sample", "--out", here / "piped", "--json"]
    with (here / "target.csv").open("rb") as file:
        done = run("fit", here / "source.csv", "-", *common, stdin=file)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == OURS
    predictions = (here / "piped/predictions.csv").read_bytes()
    assert predictions == (here / "fit/predictions.csv").read_bytes()
    done = run("fit", "-", "-", *common, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stderr == "unshift: Only one of SOURCE and TARGET can be standard input.\n"


def test_every_command_has_an_answer_in_json(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = "fit/model.unshift"
    for words, key in (
        (["inspect", model], "verdict"),
        (["predict", model, "target.csv", "--out", "p.csv"], "rows"),
        (["transform", model, "target.csv", "--to", "shared", "--out", "t.csv"], "rows"),
        (["demo", "--out", "demo"], "accuracies"),
    ):
        assert main([*words, "--json"]) == 0
        printed = capsys.readouterr()
        assert key in json.loads(printed.out)
        assert printed.err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_scripts_name_commands_and_options(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("transform", "--features-differ", "--resume"):
        assert word in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_installed_command_is_this_one() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "unshift", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("unshift ")
