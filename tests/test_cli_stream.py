"""Predict and transform on real files: the same bits however they are cut, killed, resumed."""

import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

from commands import LABEL, command, environment, run, signal_once, start, written
from unshift import outputs, stream, table_base
from unshift.cli import main
from unshift.model import load_model

# A map of five columns takes some 9,000 rows at a time: several times that.
ROWS, ROWS_SLOW = 60_000, 30_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fitted model, and larger files of target rows in float64 and float32."""
    folder = tmp_path_factory.mktemp("stream")
    _, target = written(folder)
    words = ["fit", folder / "source.csv", folder / "target.csv", "--id", "sample"]
    done = run(*words, "--label", LABEL, "--out", folder / "fit")
    assert done.returncode == 0, done.stderr
    rows = np.random.default_rng(0).choice(300, ROWS)
    many = target.iloc[rows].drop(columns=LABEL).assign(sample=[f"{i:05d}" for i in range(ROWS)])
    many.to_parquet(folder / "many.parquet", row_group_size=11_111, index=False)
    numbers = {f"b{i}": np.float32 for i in range(5)}
    many.astype(numbers).to_parquet(folder / "single.parquet", row_group_size=7000, index=False)
    many[:ROWS_SLOW].to_parquet(folder / "few.parquet", row_group_size=2000, index=False)
    many.to_csv(folder / "many.csv", index=False)
    return folder


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


# Pages that the process holds after every batch.
MEASURED = """
import sys
from unshift import outputs, stream, table_base
stream.BATCH_BYTES = table_base.BATCH_BYTES = outputs.SECTION_BYTES = 1 << 20
write, pages = outputs.Output.write, []
def watched(self, batch):
    write(self, batch)
    pages.append(int(open("/proc/self/statm").read().split()[1]))
outputs.Output.write = watched
from unshift.cli import main
code = main(sys.argv[1:])
print(pages)
sys.exit(code)
"""


def predict(data: str, out: str, *more: str) -> int:
    return main(["predict", "fit/model.unshift", data, "--id", "sample", "--out", out, *more])


@pytest.mark.parametrize("data", ["many.parquet", "single.parquet"])
def test_what_is_streamed_has_the_bits_of_what_is_computed_in_memory(here: Path, data: str) -> None:
    model = load_model(here / "fit" / "model.unshift")
    rows = pd.read_parquet(here / data)
    X = rows[[f"b{i}" for i in range(5)]].to_numpy()
    assert predict(data, "out.parquet") == 0
    out = pd.read_parquet(here / "out.parquet")
    assert (out["sample"] == rows["sample"]).all()
    probabilities = out.filter(like="probability").to_numpy()
    assert probabilities.dtype == X.dtype
    np.testing.assert_array_equal(probabilities, model.fold().predict_proba(X))
    np.testing.assert_array_equal(out[LABEL], model.fold().predict(X))
    for to, map_ in (("shared", model.alignment.target), ("source", None)):
        map_ = map_ or model.alignment.target_to_source
        words = ["transform", "fit/model.unshift", data, "--to", to, "--out", "out.parquet"]
        assert main(words) == 0
        mapped = pd.read_parquet(here / "out.parquet")
        np.testing.assert_array_equal(mapped.to_numpy(), map_(X))
        assert mapped.to_numpy().dtype == X.dtype


def test_bits_do_not_depend_on_how_the_file_is_cut(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert predict("many.parquet", "whole.csv") == 0
    monkeypatch.setattr(table_base, "BATCH_ROWS", 3700)
    monkeypatch.setattr(stream, "BATCH_ROWS", 64)
    monkeypatch.setattr(outputs, "SECTION_BYTES", 1)
    assert predict("many.parquet", "pieces.csv") == 0
    assert predict("many.csv", "text.csv") == 0
    assert (here / "pieces.csv").read_bytes() == (here / "whole.csv").read_bytes()
    assert (here / "text.csv").read_bytes() == (here / "whole.csv").read_bytes()


@pytest.mark.parametrize("ending", ["csv", "tsv.gz", "parquet", "feather"])
def test_sections_add_up_to_a_file_that_others_read(
    here: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert predict("many.parquet", "whole.parquet") == 0
    whole = pd.read_parquet(here / "whole.parquet")
    monkeypatch.setattr(stream, "BATCH_ROWS", 64)
    monkeypatch.setattr(outputs, "SECTION_BYTES", 1)
    assert predict("many.parquet", f"out.{ending}") == 0
    file = here / f"out.{ending}"
    if ending == "parquet":
        assert pq.ParquetFile(file).metadata.num_row_groups > 1
        read = pd.read_parquet(file)
    elif ending == "feather":
        read = feather.read_table(file).to_pandas()
    else:
        read = csv.read_csv(
            file,
            parse_options=csv.ParseOptions(delimiter="\t" if "tsv" in ending else ","),
            convert_options=csv.ConvertOptions(column_types={"sample": pa.string()}),
        ).to_pandas()
    pd.testing.assert_frame_equal(read, whole, check_exact=True)


@pytest.mark.parametrize(
    ("ending", "sent"),
    [
        *product(["csv", "parquet", "arrow"], [signal.SIGKILL, signal.SIGINT]),
        ("parquet", signal.SIGTERM),
    ],
)
def test_killed_midway_there_is_no_file_and_resume_makes_it_whole(
    here: Path, tmp_path: Path, ending: str, sent: signal.Signals
) -> None:
    out = tmp_path / f"out.{ending}"
    words = ["predict", "fit/model.unshift", "few.parquet", "--id", "sample", "--out", out]
    process = start(*words)
    said = signal_once(process, tmp_path / f"out.{ending}.partial.json", sent)
    code = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}[sent]
    assert process.returncode == code
    assert "Traceback" not in said
    left = {path.name for path in tmp_path.iterdir()}
    assert {f"out.{ending}.partial", f"out.{ending}.partial.json"} <= left
    assert out.name not in left
    kept = json.loads((tmp_path / f"out.{ending}.partial.json").read_text())["rows"]
    assert 0 < kept < ROWS_SLOW
    if sent != signal.SIGKILL:
        assert "--resume goes on" in said
    words = list(map(str, words))
    assert main(words) == 2, "unfinished output is not thrown away unasked"
    assert main([*words, "--resume"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert predict("few.parquet", f"again.{ending}") == 0
    if ending == "parquet":
        assert pq.read_table(out).equals(pq.read_table(here / "again.parquet"))
    elif ending == "arrow":
        assert feather.read_table(out).equals(feather.read_table(here / "again.arrow"))
    else:
        assert out.read_bytes() == (here / "again.csv").read_bytes()


def test_resume_refuses_another_input(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    words = ["predict", "fit/model.unshift", "few.parquet", "--out", str(out)]
    assert main([*words, "--resume"]) == 2
    assert "no unfinished" in capsys.readouterr().err
    signal_once(start(*words), tmp_path / "out.csv.partial.json", signal.SIGKILL)
    assert main([*words, "--id", "sample", "--resume"]) == 2
    assert "made with other options" in capsys.readouterr().err
    words[2] = "many.parquet"
    assert main([*words, "--resume"]) == 2
    assert "made with other input" in capsys.readouterr().err


def test_a_pipe_goes_in_and_out_and_may_be_closed_early(here: Path) -> None:
    model = str(here / "fit" / "model.unshift")
    assert predict("many.csv", "out.csv") == 0
    with (here / "many.csv").open("rb") as file:
        done = run("predict", model, "-", "--id", "sample", "--out", "-", stdin=file)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (here / "out.csv").read_text()
    words = shlex.join(command("predict", model, "many.csv", "--out", "-"))
    script = f"{words} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ['"kind","probability benign","probability malign"', "141"]


def test_gz_and_standard_input_and_arrow_streams_are_read(here: Path) -> None:
    (here / "many.csv.gz").write_bytes(gzip.compress((here / "many.csv").read_bytes()))
    table = pq.read_table(here / "many.parquet")
    with pa.ipc.new_stream(here / "many.arrows", table.schema) as writer:
        writer.write_table(table, max_chunksize=9999)
    feather.write_feather(table, here / "many.feather")
    assert predict("many.parquet", "out.csv") == 0
    for name in ("many.csv.gz", "many.arrows", "many.feather"):
        assert predict(name, "other.csv") == 0
        assert (here / "other.csv").read_bytes() == (here / "out.csv").read_bytes(), name
    with (here / "many.arrows").open("rb") as file:
        words = ["predict", here / "fit/model.unshift", "-", "--format", "arrow", "--id", "sample"]
        done = run(*words, "--out", "-", stdin=file)
    assert done.stdout == (here / "out.csv").read_text()


def test_memory_does_not_grow_with_the_file(here: Path, tmp_path: Path) -> None:
    # 120 MB of rows in batches and sections of 1 MB: were they held, the second half would show.
    columns = np.random.default_rng(0).standard_normal((5, 3_000_000))
    table = pa.table({f"b{i}": column for i, column in enumerate(columns)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=50_000, use_dictionary=False)
    del table, columns
    words = ["predict", here / "fit/model.unshift", tmp_path / "in.parquet"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, words), "--out", str(tmp_path / "out.parquet")],
        capture_output=True,
        text=True,
        check=True,
        env=environment() | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"},
    )
    megabytes = (
        np.array(json.loads(done.stdout.splitlines()[-1])) * os.sysconf("SC_PAGE_SIZE") / 1e6
    )
    first, second = np.array_split(megabytes, 2)
    assert megabytes.size > 100
    assert second.max() < first.max() + 25, (first.max(), second.max())
    assert second.max() < 1000


def test_a_full_or_forbidden_place_is_exit_code_three(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict("few.parquet", "no/such/folder/out.csv") == 3
    assert "could not be written: No such file or directory" in capsys.readouterr().err
    assert predict("few.parquet", "/dev/full", "--out-format", "csv") == 2
    assert "no file that could be replaced" in capsys.readouterr().err
    with open("/dev/full", "w") as full:
        words = ["predict", here / "fit/model.unshift", here / "few.parquet", "--out", "-"]
        done = run(*words, stdout=full, capture_output=False, stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
