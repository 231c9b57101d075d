"""The problems of the quality suite: a source with labels, a target whose labels only score.

Families, each of which counts the same whatever its number of problems:

- ``digits``: the 45 pairs of digits, MNIST to USPS, in the embeddings of four networks.
- ``gas``: all ordered pairs of the eight batches of the gas sensors, 128 columns.
- ``office``: all ordered pairs of the three cameras, 1024 columns.
- ``sugarcane``: regression across spectrometers of unlike widths. The same samples were measured on
  all instruments: half of the samples are the source, the others the target.
- ``planted``: halves of scikit-learn's data sets, one through an affine map of its columns.
- ``planted, unknown columns``: the same through any invertible map; columns mean nothing any more.
- ``skada``: the shifts of skada's generator, in the sizes and noise of skada's own benchmark.
- ``controls``: two halves of the same data, where there is nothing to gain.
- ``symmetric``: two alignments fit equally well by construction; only the verdict is judged.

A source of more than 3,000 rows is cut to a random 3,000 of them. Every problem draws from
a generator seeded by its own name, so that it is the same in whatever order problems are made.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
from sklearn import datasets as sets

from unshift import datasets, stiefel

Array = np.ndarray

MOST_ROWS = 3000
SYMMETRIC, CONTROLS = "symmetric", "controls"
SCALED_NOISE = {"covariate_shift": 0.6, "subspace": 0.4}
PACKAGED = {
    "digits": sets.load_digits,
    "wine": sets.load_wine,
    "breast cancer": sets.load_breast_cancer,
    "iris": sets.load_iris,
}
# Instruments of unlike widths: 231, 125, 201, 228, 331 and 256 wavelengths.
INSTRUMENTS = ("F750", "Micronir1700rep1", "Nirone22", "Nirscan_nano", "Scio", "Tellspec")


@dataclass(frozen=True, eq=False)
class Problem:
    """One source and one target; ``variety`` is the part of the family that it belongs to."""

    family: str
    variety: str
    name: str
    X_source: Array
    y_source: Array
    X_target: Array
    y_target: Array
    task: str = "classification"
    same_features: bool = True


@dataclass(frozen=True)
class Data:
    """Where data that do not ship are found; None where there are none."""

    folder: Path | None

    def load(self, name: str) -> dict[str, Array] | None:
        """Arrays of a file, or None where it is not there."""
        if self.folder is None or not (self.folder / name).is_file():
            return None
        with np.load(self.folder / name, allow_pickle=False) as arrays:
            return dict(arrays)


def seeded(*names: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(names).encode()))


def make(
    family: str,
    variety: str,
    name: str,
    source: tuple[Array, Array],
    target: tuple[Array, Array],
    **more: object,
) -> Problem:
    """A problem, with its source cut to MOST_ROWS."""
    X, y = source
    if len(X) > MOST_ROWS:
        kept = seeded(family, variety, name).choice(len(X), MOST_ROWS, replace=False)
        X, y = X[kept], y[kept]
    return Problem(family, variety, name, X, y, *target, **more)  # type: ignore[arg-type]


def halves(
    X: Array, y: Array, rng: np.random.Generator
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    order = rng.permutation(len(y))
    first, second = order[: len(y) // 2], order[len(y) // 2 :]
    return (X[first], y[first]), (X[second], y[second])


def packaged(name: str) -> tuple[Array, Array]:
    """A data set of scikit-learn, without its constant columns."""
    X, y = PACKAGED[name](return_X_y=True)
    return X[:, X.std(axis=0) > 0], y


def digits(data: Data) -> Iterator[Problem]:
    for network in datasets.DIGITS_NETWORKS:
        rows = datasets.load_digits_embeddings(network)
        for pair in combinations(range(10), 2):
            source, target = np.isin(rows.y_source, pair), np.isin(rows.y_target, pair)
            yield make(
                "digits",
                network,
                "{} or {}".format(*pair),
                (rows.X_source[source], rows.y_source[source]),
                (rows.X_target[target], rows.y_target[target]),
            )


def gas(data: Data) -> Iterator[Problem]:
    arrays = data.load("gas_drift.npz")
    batches = (1, 2, 3, 4, 5, 6, 8, 9) if arrays is not None else ()
    for pair in permutations(batches, 2):
        assert arrays is not None
        source, target = ((arrays[f"X{b}"], arrays[f"y{b}"]) for b in pair)
        yield make("gas", "batches", "{} to {}".format(*pair), source, target)


def office(data: Data) -> Iterator[Problem]:
    arrays = data.load("office_adw.npz")
    cameras = ("amazon", "dslr", "webcam") if arrays is not None else ()
    for pair in permutations(cameras, 2):
        assert arrays is not None
        source, target = ((arrays[f"X_{c}"], arrays[f"y_{c}"]) for c in pair)
        yield make("office", "cameras", "{} to {}".format(*pair), source, target)


def sugarcane(data: Data) -> Iterator[Problem]:
    arrays = data.load("sugarcane.npz")
    if arrays is None:
        return
    samples = np.sort(arrays["References_id"])
    truth = arrays["References"][np.argsort(arrays["References_id"])]
    for pair in permutations(INSTRUMENTS, 2):
        spectra = [arrays[name][np.argsort(arrays[f"{name}_id"])] for name in pair]
        order = seeded("sugarcane", *pair).permutation(samples.size)
        first, second = np.array_split(order, 2)
        for column in range(truth.shape[1]):
            known = ~np.isnan(truth[:, column])
            here, there = first[known[first]], second[known[second]]
            yield make(
                "sugarcane",
                f"reference {column + 1}",
                "{} to {}".format(*pair),
                (spectra[0][here], truth[here, column]),
                (spectra[1][there], truth[there, column]),
                task="regression",
                same_features=False,
            )


def _offset(X: Array, unit: Array, rng: np.random.Generator) -> Array:
    return X + 1.5 * unit * rng.standard_normal(X.shape[1])


def _gain(X: Array, unit: Array, rng: np.random.Generator) -> Array:
    gain = np.exp(0.7 * rng.standard_normal(X.shape[1]))
    return X * gain + unit * rng.standard_normal(X.shape[1])


def _mixing(X: Array, unit: Array, rng: np.random.Generator) -> Array:
    """Columns leak into each other, as between channels of an instrument."""
    d = X.shape[1]
    leak = 0.6 * rng.standard_normal((d, d)) / np.sqrt(d)
    return (X / unit) @ (np.eye(d) + leak) * unit + 0.7 * unit * rng.standard_normal(d)


SHIFTS: dict[str, Callable[[Array, Array, np.random.Generator], Array]] = {
    "offset": _offset,
    "gain": _gain,
    "mixing": _mixing,
}


def planted(data: Data) -> Iterator[Problem]:
    for variety, shift in SHIFTS.items():
        for name in PACKAGED:
            X, y = packaged(name)
            center, unit = X.mean(axis=0), X.std(axis=0)
            for seed in range(3):
                rng = seeded("planted", variety, name, str(seed))
                source, (rows, labels) = halves(X, y, rng)
                shifted = center + shift(rows - center, unit, rng)
                yield make("planted", variety, f"{name} {seed}", source, (shifted, labels))


def planted_unknown(data: Data) -> Iterator[Problem]:
    """Both halves on a few common components; one then through a map of condition up to 30."""
    for name, p in (("digits", 5), ("digits", 10), ("wine", 4), ("breast cancer", 5), ("iris", 3)):
        X, y = packaged(name)
        Z = (X - X.mean(axis=0)) / (X.std(axis=0) if name != "digits" else X.std())
        reduced = Z @ np.linalg.eigh(Z.T @ Z)[1][:, ::-1][:, :p]
        for seed in range(4):
            rng = seeded("planted, unknown columns", name, str(p), str(seed))
            source, (rows, labels) = halves(reduced, y, rng)
            left, right = stiefel.random_orthogonal(p, rng, size=2)
            stretch = np.exp(rng.uniform(0.0, np.log(30.0), p))
            shifted = rows @ (left * stretch @ right) + 3.0 * rng.standard_normal(p)
            yield make(
                "planted, unknown columns",
                f"p = {p}",
                f"{name} {seed}",
                source,
                (shifted, labels),
                same_features=False,
            )


def skada(data: Data) -> Iterator[Problem]:
    try:
        from skada.datasets import make_shifted_datasets
    except ImportError:
        return
    for shift in ("covariate_shift", "target_shift", "conditional_shift", "subspace"):
        rows = 300 if shift == "subspace" else 100  # eight times as many a domain
        for label in ("binary", "multiclass"):
            for seed in range(5):
                X, y, domain = make_shifted_datasets(
                    n_samples_source=rows,
                    n_samples_target=rows,
                    shift=shift,
                    label=label,
                    noise=SCALED_NOISE.get(shift, 0.8),
                    center_cov_shift=(-0.4, 3),
                    random_state=seed,
                )
                of_source = domain >= 0
                yield make(
                    "skada",
                    shift.replace("_", " "),
                    f"{label} {seed}",
                    (X[of_source], y[of_source]),
                    (X[~of_source], y[~of_source]),
                )


def controls(data: Data) -> Iterator[Problem]:
    groups = {name: packaged(name) for name in PACKAGED}
    arrays = data.load("gas_drift.npz")
    if arrays is not None:
        groups |= {f"gas {b}": (arrays[f"X{b}"], arrays[f"y{b}"]) for b in (1, 3, 6)}
    arrays = data.load("office_adw.npz")
    if arrays is not None:
        groups["amazon"] = arrays["X_amazon"], arrays["y_amazon"]
    for network in datasets.DIGITS_NETWORKS:
        rows = datasets.load_digits_embeddings(network)
        groups[f"usps, {network}"] = rows.X_target, rows.y_target
    for name, (X, y) in groups.items():
        for seed in range(2):
            parts = halves(X, y, seeded(CONTROLS, name, str(seed)))
            yield make(CONTROLS, "halves", f"{name} {seed}", *parts)


def symmetric(data: Data) -> Iterator[Problem]:
    """Classes at corners that some rotation maps onto each other, so that their names are lost.

    Columns unknown: the target through any map. Known: turned by half the angle between corners,
    so that the classes' two ways back are equally far.
    """
    for corners, d in ((2, 2), (2, 5), (3, 2), (3, 4), (4, 2), (4, 3)):
        for seed in range(2):
            for known in (True, False):
                variety = "known columns" if known else "unknown columns"
                name = f"{corners} corners in {d}, {seed}"
                rng = seeded(SYMMETRIC, variety, name)
                angles = 2.0 * np.pi * np.arange(corners) / corners
                turn = np.pi / corners if known else 0.0
                parts = []
                for angle in (0.0, turn):
                    y = rng.permutation(np.arange(600) % corners)
                    X = 0.5 * rng.standard_normal((600, d))
                    X[:, 0] += 2.0 * np.cos(angles[y] + angle)
                    X[:, 1] += 2.0 * np.sin(angles[y] + angle)
                    parts.append((X, y))
                if not known:
                    map_ = stiefel.random_orthogonal(d, rng) * np.exp(rng.uniform(-1, 1, d))
                    parts[1] = parts[1][0] @ map_ + rng.standard_normal(d), parts[1][1]
                yield make(SYMMETRIC, variety, name, *parts, same_features=known)


FAMILIES: dict[str, Callable[[Data], Iterator[Problem]]] = {
    "digits": digits,
    "gas": gas,
    "office": office,
    "sugarcane": sugarcane,
    "planted": planted,
    "planted, unknown columns": planted_unknown,
    "skada": skada,
    CONTROLS: controls,
    SYMMETRIC: symmetric,
}
# The file that a family cannot do without.
NEEDS = {
    "gas": "gas_drift.npz",
    "office": "office_adw.npz",
    "sugarcane": "sugarcane.npz",
}
# Of the quick subset: about this many problems a family, evenly spread over it.
QUICK = 8


def problems(data: Data, families: list[str], quick: bool) -> Iterator[Problem]:
    """All problems of the families, or of each a few evenly spread ones."""
    for family in families:
        if not quick:
            yield from FAMILIES[family](data)
            continue
        # Made twice: once to count them. Making is cheap beside solving.
        count = sum(1 for _ in FAMILIES[family](data))
        chosen = set(np.linspace(0, count - 1, min(QUICK, count)).round().astype(int))
        for i, problem in enumerate(FAMILIES[family](data)):
            if i in chosen:
                yield problem
