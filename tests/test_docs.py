"""What the pages of docs show runs, and what they promise of other languages holds there."""

import contextlib
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unshift
from planted import view
from unshift.datasets import make_mixture
from unshift.model import Model, linear_predictor

DOCS = Path(__file__).parents[1] / "docs"
PRODUCTION = DOCS / "production.md"
WITH_PYTHON = sorted(page for page in DOCS.glob("*.md") if "```python" in page.read_text("utf-8"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def run_page(page: Path) -> tuple[dict[str, Any], str]:
    """Run the blocks of Python of a page one after another; names at the end, and what was said."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        for number, block in enumerate(blocks(page, "python"), 1):
            exec(compile(block, f"{page.name}, block {number}", "exec"), names)
    return names, said.getvalue()


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_in_their_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = make_mixture(4)  # as 'unshift fit' leaves a model there, of which a page may speak
    X, Z = data.X_source, data.X_target
    alignment = unshift.align(X, Z, n_starts=1, same_features=False, random_state=0)
    predictor = linear_predictor(alignment.source(X), data.y_source, "classification")
    Path("result").mkdir()
    Model(alignment, predictor, "grade").save("result/model.unshift")
    run_page(page)


def test_links_within_the_pages_lead_somewhere() -> None:
    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        text = page.read_text("utf-8")
        # pictures are written by commands, some of which take long
        for target in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if "://" in path:
                continue
            linked = page.parent / path if path else page
            assert linked.exists(), f"{page.name} links to {target}"
            if anchor:
                titles = re.findall(r"^#+ (.*)$", linked.read_text("utf-8"), re.MULTILINE)
                known = {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}
                assert anchor in known, f"{page.name} links to {target}"


@pytest.fixture
def exported(tmp_path: Path) -> tuple[Path, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A folder with map.json of 6 columns to 4, rows far from 0, and what they are mapped to."""
    source, target = view(4, 1, n=60).rows, view(6, 2, n=60).rows + 1e4
    alignment = unshift.align(source, target, n_components=3, n_starts=1, random_state=0)
    (tmp_path / "map.json").write_text(alignment.target_to_source.to_json())
    return tmp_path, target, alignment.target_to_source(target)


def assert_mapped(got: Any, expected: np.ndarray[Any, Any]) -> None:
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_python_without_numpy_maps_as_the_map_does(
    exported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rows, expected = exported
    monkeypatch.chdir(folder)
    (block,) = (b for b in blocks(PRODUCTION, "python") if "def to_source(row)" in b)
    names: dict[str, Any] = {"Path": Path}
    exec(block.partition("\n\nassert")[0], names)
    assert_mapped([names["to_source"](row) for row in rows.tolist()], expected)


def test_javascript_maps_as_the_map_does(exported: Any) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    folder, rows, expected = exported
    (block,) = blocks(PRODUCTION, "javascript")
    tail = f"console.log(JSON.stringify({json.dumps(rows.tolist())}.map(toSource)));\n"
    (folder / "map.js").write_text(block + tail)
    done = subprocess.run([node, "map.js"], cwd=folder, capture_output=True, text=True, check=True)
    assert_mapped(json.loads(done.stdout), expected)


def test_c_maps_as_the_map_does(exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder, rows, expected = exported
    monkeypatch.chdir(folder)
    (header,) = (b for b in blocks(PRODUCTION, "python") if "map.h" in b)
    exec(header, {"Path": Path, "map_": json.loads(Path("map.json").read_text())})
    (block,) = blocks(PRODUCTION, "c")
    tail = """
#include <stdio.h>

int main(void) {
    double row[D], out[P];
    for (;;) {
        for (int j = 0; j < D; j++)
            if (scanf("%lf", row + j) != 1) return 0;
        to_source(row, out);
        for (int k = 0; k < P; k++) printf("%.17g\\n", out[k]);
    }
}
"""
    Path("map.c").write_text(block + tail)
    subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", "map.c", "-o", "map"], check=True)
    told = "\n".join(repr(value) for value in rows.ravel().tolist())
    done = subprocess.run(["./map"], input=told, capture_output=True, text=True, check=True)
    assert_mapped(np.array(done.stdout.split(), dtype=float).reshape(expected.shape), expected)
