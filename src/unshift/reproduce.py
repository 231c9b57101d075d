"""The paper's experiments into a folder: tidy CSV, figures, one page that needs nothing else."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import claims, experiments_digits, figures, pages, plots, protocols, scoreboard, tables
from . import experiments_simulated as mixtures
from .datasets import DIGITS_NETWORKS, digits_networks, load_digits_embeddings
from .digits_images import load_images
from .networks import import_torch, retrain
from .scoreboard import PAPERS_SHARE, Scores

Row = dict[str, Any]
Progress = Callable[[str, int, int], object]
Pictures = dict[str, tuple[bytes, str]]
Drawings = Mapping[str, tuple[Callable[[], Any], str]]

# Mixtures of the table of starts, that of figures 4 and 5, and one whose maps are well conditioned.
SEEDS, SHOWN, BOUNDARY = 200, 0, 3
PAGE = "report.html"


def chosen_networks(text: str) -> tuple[str, ...]:
    """Names of networks from "all" or a list with commas."""
    if text == "all":
        return DIGITS_NETWORKS
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in DIGITS_NETWORKS]
    if unknown:
        raise ValueError(
            f"There is no network {unknown[0]!r}: expected 'all' or some of "
            f"{', '.join(DIGITS_NETWORKS)}, with commas between them."
        )
    return names


def simulated(
    out: Path,
    *,
    seeds: int = SEEDS,
    n_jobs: int = 2,
    command: str = "",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Section 4.1 into ``out``; the dictionary that its page shows."""
    started = time.perf_counter()
    one, anti = mixtures.one_mixture(SHOWN), mixtures.anti_alignment(SHOWN)
    rows = mixtures.many_mixtures(seeds, n_jobs, progress)
    starts = mixtures.share_table(rows)
    boundary = mixtures.boundary_before_and_after(BOUNDARY)
    pictures, missing = _drawn(
        out,
        {
            "boundary": (
                lambda: plots.panels(boundary, "class"),
                "The boundary of a logistic regression trained on the source (discs), and the "
                "target's rows (crosses) before and after they are mapped to source features.",
            ),
            "anti": (
                lambda: plots.panels(anti["panels"], "class"),
                "Two alignments of data symmetric about its mean, with the same MMD²; one swaps "
                "the classes.",
            ),
            "rotation": (
                lambda: plots.panels(one["panels"], "class"),
                "Both domains whitened, and then rotated to the lowest MMD²; titles end with the "
                "accuracy on the target.",
            ),
            "landscape": (
                lambda: figures.landscape(one["landscape"], one["minima"]),
                "MMD² of every rotation and every reflection; dots are the local minima with the "
                "accuracy there, the lowest one in orange.",
            ),
            "starts": (
                lambda: figures.starts(starts),
                "How often each kind of start ends at the lowest of all minima, and how often at "
                "the rotation of the true maps.",
            ),
        },
    )
    result = {
        **one,
        "starts": starts,
        "claims": claims.simulated(one, starts, rows, anti),
        "missing": missing,
        **_provenance(command, started),
    }
    written = {
        "landscape": one["landscape"],
        "minima": one["minima"],
        "restarts": one["restarts"],
        "anti_alignment": anti["rows"],
        "starts": rows,
        "starts_summary": starts,
        "claims": result["claims"],
    }
    _write(out, written, pages.simulated(result, pictures))
    return result


def digits(
    out: Path,
    networks: Sequence[str] = ("paper",),
    *,
    folder: Path | None = None,
    pairs: Sequence[tuple[int, int]] | None = None,
    ten: bool = True,
    draws: int = experiments_digits.DRAWS,
    n_jobs: int = 2,
    command: str = "",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Section 4.2 into ``out``, on the package's embeddings or ``folder``'s; as its page shows."""
    started = time.perf_counter()
    raw: dict[str, list[Row]] = {}
    for name in networks:
        data = load_digits_embeddings(name, folder)
        found = experiments_digits.run_network(
            data, pairs=pairs, ten=ten, draws=draws, n_jobs=n_jobs, progress=progress
        )
        for table, rows in found.items():
            raw.setdefault(table, []).extend(rows)
    scores = Scores(raw["accuracies"])
    summary = scoreboard.summary_rows(scores)
    row_means = scoreboard.row_means(raw["rows"])
    trained = digits_networks(folder)
    result = {
        "networks": list(networks),
        "headlines": {name: scoreboard.headline(summary, name) for name in networks},
        "trained": {name: _told(trained[name]) for name in networks},
        "labels": scoreboard.label_rows(summary),
        "claims": {
            name: claims.of_network(summary, row_means, raw["dimensions"], name)
            for name in networks
        },
        "wanted": claims.wanted(summary, networks),
        "solver": protocols.SOLVER,
        "notes": _notes(summary),
        **_provenance(command, started),
    }
    drawings: dict[str, tuple[Callable[[], Any], str]] = {}
    for name in networks:
        drawings |= _network_drawings(name, scores, result, row_means)
    pictures, result["missing"] = _drawn(out, drawings)
    claimed = [{"network": name, **row} for name in networks for row in result["claims"][name]]
    written = {
        **raw,
        "rows_summary": row_means,
        "summary": summary,
        "published": scoreboard.published_gains(),
        "claims": claimed,
        "wanted": result["wanted"],
    }
    _write(out, written, pages.digits(result, pictures))
    return result


def retrained(
    folder: Path, networks: Sequence[str], data: Path | None, progress: Progress | None = None
) -> None:
    """Train the networks anew into ``folder``, where what is there already is taken up again."""
    import_torch()  # before anything is downloaded for it
    images = load_images(data, None if data is not None else folder / "images")

    def epoch(name: str, done: int, total: int, loss: float) -> None:
        if progress is not None:
            progress(name, done, total)

    retrain(images, folder, names=networks, progress=epoch)


def told_of_simulated(result: Mapping[str, Any]) -> list[str]:
    """What the command line says of section 4.1."""
    lines = ["Start, how often it finds the lowest MMD², how often the true maps' rotation:"]
    lines += [
        f"  {row['start']:<24} {row['global']:>6.1%} {row['right']:>6.1%}"
        for row in result["starts"]
    ]
    return lines + _told_of_claims(result["claims"])


def told_of_digits(result: Mapping[str, Any]) -> list[str]:
    """What the command line says of section 4.2."""
    lines = []
    for name in result["networks"]:
        lines.append(
            f"Network {name}: p, share of labels, mean and lowest accuracy, pairs more than 1 and "
            "5 points under 'none':"
        )
        lines += [
            f"  {row['method']:<44} {row['components']:>4} {row['labels']:>4.0%} "
            f"{row['mean']:.3f} {row['lowest']:.3f} {row['harmed_1']:>3} {row['harmed_5']:>3}"
            for row in result["headlines"][name]
        ]
        lines += _told_of_claims(result["claims"][name])
    return lines


def _told_of_claims(claimed: Sequence[Row]) -> list[str]:
    return ["The paper's claims:", *(f"  {r['claim']} {r['verdict'].upper()}" for r in claimed), ""]


def told_of_files(out: Path, result: Mapping[str, Any]) -> str:
    """Where to look."""
    files = f"Written to {out} in {result['seconds']:.0f} s: {PAGE}, figures and tables (CSV)"
    return f"{files}\nThe page has no pictures. {result['missing']}" if result["missing"] else files


def _told(entry: Mapping[str, Any]) -> str:
    recipe, right = entry["recipe"], entry["accuracy"]
    ranks = entry["positive_eigenvalues"]
    return (
        f"{recipe['architecture'].upper()}, learning rate {recipe['learning_rate']:g}, "
        f"{recipe['epochs']} epochs, seed {recipe['seed']}; its own output layer is right on "
        f"{right['mnist_test']:.1%} of MNIST's test rows and {right['usps_test']:.1%} of USPS's; "
        f"{ranks['mnist_train']} positive eigenvalues on MNIST and {ranks['usps_test']} on USPS, "
        "of 20."
    )


def _notes(summary: Sequence[Row]) -> list[str]:
    if any(row["method"] == "POT LinearTransport" for row in summary):
        return []
    return ["POT is not installed (pip install 'unshift[bench]'): its row is missing."]


def _network_drawings(
    name: str, scores: Scores, result: Mapping[str, Any], row_means: Sequence[Row]
) -> dict[str, tuple[Callable[[], Any], str]]:
    forms = (protocols.TEXT.name, protocols.NOTEBOOK.name)
    figure_6 = [_maps(name, scores, form, "5") for form in forms]
    figures_7_8 = [_maps(name, scores, form, "all") for form in forms]
    default = [_maps(name, scores, experiments_digits.UNSHIFT, "auto")]
    printed: list[tuple[str, figures.Cells]] = [
        (
            title,
            {
                row["pair"]: (None, row["gain"])
                for row in scoreboard.published_gains()
                if row["labels"] == labels
            },
        )
        for title, labels in (
            ("published, no labels", 0.0),
            ("published, 10 % labels", PAPERS_SHARE),
        )
    ]
    labels = [row for row in result["labels"] if row["network"] == name and row["labels"]]
    blind = {
        f"{row['method']} {row['components']}": row["mean"]
        for row in result["headlines"][name]
        if not row["labels"]
    }
    rows = [row for row in row_means if row["network"] == name]
    legend = (
        "Accuracy on USPS and gain over 'none', in points. Orange: worse than 'none'; dark orange: "
        "anti-aligned, below one half; white: no change; blue: better, deeper from 5 and 20 points."
    )
    return {
        f"figure 6 {name}": (lambda: figures.heat_maps(figure_6), legend),
        f"figures 7 and 8 {name}": (lambda: figures.heat_maps(figures_7_8), legend),
        f"default {name}": (lambda: figures.heat_maps(default), legend),
        f"published {name}": (
            lambda: figures.heat_maps([printed]),
            "The gains that the authors printed (figure 6, p = 5, their network), in points.",
        ),
        f"labels {name}": (
            lambda: figures.label_curves(labels, blind["none –"], blind),
            "Mean accuracy of the pairs against the share of labels, squares without any; bands "
            "are one standard deviation over the draws of the labels.",
        ),
        f"rows {name}": (
            lambda: figures.row_curves(rows),
            "Accuracy of the paper's protocol without labels against the rows of each domain.",
        ),
    }


def _maps(name: str, scores: Scores, method: str, p: str) -> list[tuple[str, figures.Cells]]:
    """A line of heat maps of one method: no labels, then 10 %."""
    line: list[tuple[str, figures.Cells]] = []
    for labels, words in ((0.0, "no labels"), (PAPERS_SHARE, "10 % labels")):
        key = (name, method, p, labels)
        accuracy, gain = scores.accuracy(key), scores.gain(key)
        cells = {pair: (accuracy[pair], gain[pair]) for pair in scores.pairs(name)}
        line.append((f"{method}, p = {p}, {words}", cells))
    return line


def _provenance(command: str, started: float) -> dict[str, Any]:
    return {
        "command": command,
        "seconds": time.perf_counter() - started,
        "versions": {name: version(name) for name in ("unshift", "numpy", "scipy", "scikit-learn")}
        | {"python": platform.python_version()},
    }


def _drawn(out: Path, drawings: Drawings) -> tuple[Pictures, str]:
    """Pictures, also written to ``out``; without matplotlib none, and a sentence that says why."""
    out.mkdir(parents=True, exist_ok=True)
    pictures: Pictures = {}
    try:
        for name, (draw, words) in drawings.items():
            data = plots.png(draw())
            (out / f"{name.replace(' ', '_')}.png").write_bytes(data)
            pictures[name] = (data, words)
    except ModuleNotFoundError as error:
        return {}, str(error)
    return pictures, ""


def _write(out: Path, written: Mapping[str, Sequence[Row]], page: str) -> None:
    for name, rows in written.items():
        tables.write_rows(out / f"{name}.csv", rows)
    (out / PAGE).write_text(page, encoding="utf-8")
