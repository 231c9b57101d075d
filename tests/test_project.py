"""What holds for the project as a whole: import order, public names, import cost, tracked files."""

import ast
import inspect
import json
import os
import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "unshift"

# A file imports only from those before it.
ORDER = [
    *("_blocks", "_arrays", "_checks", "_extras"),
    *("affine", "moments", "streamed", "whitening", "stiefel", "mmd", "spectral"),
    *("labels", "domain", "space"),
    *("descent", "invariants", "minima", "plane", "search", "contrast"),
    *(
        "predictors",
        "choice",
        "joint",
        "mixture",
        "strengths",
        "balance",
        "evidence",
        "views",
        "suggestion",
    ),
    *(
        "residual",
        "diagnosis",
        "storage",
        "fold",
        "markup",
        "svg",
        "cards",
        "changes",
        "scene",
        "plots",
        "alignment",
        "align",
        "plate",
        "many",
        "stacked",
        "aligned",
        "estimators",
    ),
    *("datasets", "digits_images", "networks", "protocols"),
    *("model", "chain", "onnx"),
    *("table_base", "table_text", "table_binary", "table_arrays", "tables"),
    *("columns", "outputs", "stream", "predicting"),
    *("summary", "demo", "experiments_simulated", "experiments_digits"),
    *("scoreboard", "claims", "figures", "stage", "answers", "report", "pages", "reproduce"),
    *("fitting", "cli_common", "cli_fit", "cli_stream", "cli_show", "cli"),
    "__init__",
]

PROMISED = [
    "AffineAligner",
    "AffineMap",
    "AlignedClassifier",
    "AlignedRegressor",
    "Alignment",
    "align",
    "align_many",
    "load",
    "mmd2",
    "stiefel",
]

FILES = sorted(PACKAGE.rglob("*.py"))


def imported_modules(source: str) -> set[str]:
    """Modules of unshift that the source imports, wherever in the file, '__init__' for itself."""
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "unshift" if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            paths = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for package, _, rest in (path.partition(".") for path in paths):
            if package == "unshift":
                name = rest.partition(".")[0]
                modules.add(name if name in ORDER else "__init__")
    return modules


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("from .mmd import mmd2", {"mmd"}),
        ("from . import stiefel, mmd", {"stiefel", "mmd"}),
        ("def f():\n    from unshift.align import align", {"align"}),
        ("import unshift.search", {"search"}),
        ("from unshift import load", {"__init__"}),
        ("import unshift", {"__init__"}),
        ("import numpy\nfrom scipy import linalg", set()),
    ],
)
def test_every_form_of_import_is_seen(source: str, modules: set[str]) -> None:
    assert imported_modules(source) == modules


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_imports_run_one_way(path: Path) -> None:
    name = path.stem
    assert path.parent == PACKAGE, f"{path} lies in a folder: the package is flat"
    assert name in ORDER, f"{name}.py has no place in the order of imports: give it one in ORDER"
    later = imported_modules(path.read_text("utf-8")) - set(ORDER[: ORDER.index(name)])
    assert not later, f"{name}.py imports from {sorted(later)}, which come after it"


def test_contributing_lists_all_files_in_the_order_of_imports() -> None:
    rows = re.findall(
        r"^\|.*\|(.*)\|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE
    )
    assert re.findall(r"`(\w+)`", "".join(rows)) == ORDER[:-1]


def test_every_option_is_described() -> None:
    import unshift

    told = re.sub(r"\s+", " ", (ROOT / "docs" / "options.md").read_text("utf-8"))
    parameters = inspect.signature(unshift.align).parameters.values()
    options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    assert not [name for name in options if not re.search(rf"\*\*.*`{name}`.*\*\*", told)]


def test_public_names_are_the_promised_ones() -> None:
    import unshift

    assert unshift.__all__ == sorted(PROMISED)
    missing = [name for name in PROMISED if not hasattr(unshift, name)]
    assert not missing


def test_promised_arguments_are_there() -> None:
    import unshift

    parameters = inspect.signature(unshift.align).parameters
    positional = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    keywords = {p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert positional == ["X_source", "X_target", "y_source", "y_target"]
    assert keywords >= {"n_components", "bandwidth", "same_features", "choice", "random_state"}
    for promised in (unshift.AffineAligner, unshift.AlignedClassifier, unshift.AlignedRegressor):
        fit = inspect.signature(promised.fit).parameters
        assert list(fit)[:3] == ["self", "X", "y"]
        assert {"X_target", "y_target", "sample_domain", "sample_weight"} <= set(fit)


# What the objects that users hold offer by name, as the README and docs describe it.
OFFERED = {
    "Alignment": (
        *("source", "target", "target_to_source", "rotation", "mmd2", "n_components"),
        *("candidates", "diagnosis", "suggest_labels", "update", "save", "prefer", "fold"),
        *("balance_weights", "bandwidth", "same_features"),
    ),
    "ManyAlignment": (
        *("reference", "maps", "to_reference", "rotations", "mmd2", "diagnosis", "alignments"),
        *("refit", "save", "n_components", "bandwidth"),
    ),
    "AffineAligner": ("fit", "transform", "fit_transform", "set_output", "get_feature_names_out"),
    "AlignedClassifier": ("fit", "predict", "predict_proba", "score", "get_params", "fold"),
    "AlignedRegressor": ("fit", "predict", "score", "get_params", "fold"),
}


@pytest.mark.parametrize("name", OFFERED)
def test_objects_offer_what_is_promised(name: str) -> None:
    import unshift
    from unshift.many import ManyAlignment

    kind = ManyAlignment if name == "ManyAlignment" else getattr(unshift, name)
    fields = set(getattr(kind, "__dataclass_fields__", ()))
    assert not [part for part in OFFERED[name] if part not in fields and not hasattr(kind, part)]


def test_rows_of_either_domain_are_taken_where_promised() -> None:
    import unshift

    methods = {
        unshift.AffineAligner: ("transform",),
        unshift.AlignedClassifier: ("predict", "predict_proba", "score", "decision_function"),
        unshift.AlignedRegressor: ("predict", "score"),
    }
    for kind, names in methods.items():
        for name in names:
            method = inspect.getattr_static(kind, name)  # some are there for some estimators only
            parameters = inspect.signature(getattr(method, "fn", method)).parameters
            assert parameters["domain"].kind is inspect.Parameter.KEYWORD_ONLY
            assert parameters["sample_domain"].kind is inspect.Parameter.KEYWORD_ONLY


def test_other_promised_signatures() -> None:
    import unshift
    from unshift.many import ManyAlignment

    promised = {
        unshift.mmd2: ["X", "Y", "bandwidth"],
        unshift.load: ["path"],
        unshift.stiefel.minimize: ["value_and_gradient", "X0"],
        unshift.align_many: ["domains"],
        unshift.Alignment.suggest_labels: ["self", "X_target", "k"],
        unshift.Alignment.update: ["self", "X_target", "y_target"],
        unshift.Alignment.save: ["self", "path"],
        ManyAlignment.refit: ["self", "name", "X", "y"],
    }
    for function, names in promised.items():
        parameters = inspect.signature(function).parameters.values()
        assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == names
    assert "reference" in inspect.signature(unshift.align_many).parameters


def run_python(code: str) -> str:
    """Standard output of a new interpreter that may keep the bytecode it compiles."""
    dropped = {"PYTHONDONTWRITEBYTECODE", "PYTHONSTARTUP"}
    environment = {k: v for k, v in os.environ.items() if k not in dropped}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_nothing_optional_and_opens_no_socket() -> None:
    # scikit-learn itself imports pandas where it is installed, which would hide our importing it:
    # so each optional package is made absent, and who asks for one, even in a try, is written down.
    code = """
import json, sys
optional = {"torch", "pandas", "polars", "matplotlib", "ot", "pymanopt", "onnx", "skl2onnx"}
optional |= {"pyarrow", "h5py", "shtab"}
asked, sockets = [], []
class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in optional:
            asked.append(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent)
sys.addaudithook(lambda event, _: sockets.append(event) if event.startswith("socket.") else None)
import sklearn.linear_model
before = set(sys.modules)
asked.clear()
sockets.clear()
import unshift
print(json.dumps([sorted(set(sys.modules) - before), asked, sockets]))
"""
    modules, asked, sockets = json.loads(run_python(code))
    core = {"unshift", "numpy", "scipy", "sklearn", "joblib"}
    packages = {name.partition(".")[0] for name in modules}
    # Compiled extensions may register helpers of their own making, with an underscore.
    foreign = {p for p in packages - core - sys.stdlib_module_names if not p.startswith("_")}
    assert not foreign
    assert not asked
    assert not sockets


def test_import_takes_under_one_and_a_half_times_that_of_a_linear_model() -> None:
    # Processor time, since the clock also counts what else the machine does; interleaved, since
    # its speed drifts; the first of each pays for compiling and reading files, and is dropped.
    times: dict[str, list[float]] = {"sklearn.linear_model": [], "unshift": []}
    for _ in range(6):
        for name, seconds in times.items():
            seconds.append(float(run_python(f"import {name}, time; print(time.process_time())")))
    reference, ours = (statistics.median(seconds[1:]) for seconds in times.values())
    assert ours < 1.5 * reference, f"{ours:.2f} s against {reference:.2f} s"


def tracked_files() -> list[Path]:
    """Files that git tracks and that are there, as text; none outside a checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: nothing is tracked")
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in names.split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_tracked_file_names_a_package_registry() -> None:
    # Written so that the pattern does not match itself.
    registry = re.compile(
        rb"(py[p]i|pythonhost[e]d)\.(org|python)|index[-_]u[r]l|https?://[^\s\"']*/simpl[e]\b"
        rb"|anaconda\.or[g]|registry *= *[\"']http",
        re.IGNORECASE,
    )
    named = {str(p): m[0] for p in tracked_files() if (m := registry.search(p.read_bytes()))}
    assert not named


def test_no_tracked_file_uses_pickle() -> None:
    forbidden = {"pickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal"}
    users = []
    for path in tracked_files():
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                allowed = not (isinstance(node.value, ast.Constant) and node.value.value is False)
                names = ["pickle"] if allowed else []
            if forbidden & {name.partition(".")[0] for name in names}:
                users.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not users


def test_constraints_pin_all_that_is_installed_for_tests() -> None:
    def canonical(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins), "exact versions only"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["dev"], *extras["bench"]]
    names = {canonical(re.split(r"[<>=!~\[; ]", requirement)[0]) for requirement in wanted}
    assert names <= {canonical(pin.partition("==")[0]) for pin in pins}
    assert "torch" not in names


def test_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out
