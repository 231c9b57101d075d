"""``align_many``: many domains in, affine maps into one space out.

Each domain is first aligned with the reference, as ``align`` does it, then all of them together
(see ``plate``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from . import storage
from ._checks import check_matrix, check_option, check_starts, generator
from .affine import AffineMap
from .alignment import KIND, Alignment, pack_alignment, unpack_alignment
from .diagnosis import Diagnosis
from .domain import Domain, read_domain, without_outliers
from .evidence import draw_examples
from .labels import Labels, check_labels, read_labels, task_of
from .plate import Callback, Plate, PlateEvidence, descend_in_turn
from .space import SpaceSettings, share_space

Matrix = npt.NDArray[np.float64]

# In the header of a saved file: what it holds.
KIND_MANY = "many alignments"


@dataclass(frozen=True, eq=False)
class ManyAlignment:
    """Affine maps of many domains into one space, by name.

    ``maps`` take a domain's features to the shared space, ``to_reference`` to the reference's
    features. ``rotations`` are ``R_k`` (p, p): the identity for the reference, None for a domain
    that does not turn, since 'no adaptation' or a map of another kind was chosen for it. ``mmd2``
    is each domain's ``MMD²`` against the pool of the others. ``objective_path`` holds ``F`` (see
    ``plate``) at the start and after each descent of one domain; it never rises. ``alignments`` and
    ``diagnosis`` are those of each domain with the reference alone, where the joint descent starts.
    """

    reference: str
    maps: dict[str, AffineMap]
    to_reference: dict[str, AffineMap]
    rotations: dict[str, Matrix | None]
    mmd2: dict[str, float]
    objective_path: npt.NDArray[np.float64]
    diagnosis: dict[str, Diagnosis]
    alignments: dict[str, Alignment]
    n_components: int
    bandwidth: float
    evidence: PlateEvidence | None = None

    def refit(
        self,
        name: str,
        X: Any,
        y: Any = None,
        *,
        n_starts: int | str = "auto",
        n_jobs: int | None = None,
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> ManyAlignment:
        """Align one domain anew, or one more, and leave every other map as it is to the last bit.

        The rows take the place of those that the domain had. They are whitened by their own
        moments, searched against the reference and judged by ``y`` as ``align`` does, and then
        descended against the pool of the others.
        """
        evidence = self._evidence()
        if name == self.reference:
            raise ValueError(
                f"{name!r} is the reference: the shared space is made of it, and every map would "
                "change. Align all domains again, or refit another one."
            )
        _check_names([name])
        check_starts(n_starts)
        rng = generator(random_state)
        domain = read_domain(X, _called(name), None, rng)
        space = evidence.space
        _check_widths(
            self.reference, {self.reference: space.domains[0], name: domain}, space.settings
        )
        if evidence.outliers == "auto":
            (domain,) = without_outliers([domain], like=space.domains)
        known = name in evidence.order
        order = evidence.order if known else (*evidence.order, name)
        k = order.index(name)
        labels = None if y is None else read_labels(y, domain.rows.shape[0], f"y[{name!r}]")
        if labels is not None:
            trained = evidence.trained
            of_reference = None if trained is None else Labels.all_known(trained.labels)
            check_labels(of_reference, labels, evidence.task, _label_names(self.reference, name))
        evidence = replace(evidence, order=order, space=space.with_domain(k, domain))
        effort = {"n_starts": n_starts, "n_jobs": n_jobs, "callback": _told(callback, name)}
        alignment = evidence.against_reference(k, labels, rng, effort)
        plate = evidence.placed(k, alignment, rng)
        plate, path = descend_in_turn(plate, [k], callback)
        evidence = replace(evidence, space=evidence.space.trimmed(), plate=plate)
        shared, back = evidence.maps(k, alignment)
        return replace(
            self,
            maps={**self.maps, name: shared},
            to_reference={**self.to_reference, name: back},
            rotations={**self.rotations, name: plate.rotations[k]},
            mmd2=_discrepancies(plate, order, [*self.maps, *([] if known else [name])]),
            objective_path=path,
            diagnosis={**self.diagnosis, name: alignment.diagnosis},
            alignments={**self.alignments, name: alignment},
            evidence=evidence,
        )

    def _evidence(self) -> PlateEvidence:
        if self.evidence is None:
            raise ValueError(
                "This alignment comes from a file, which holds no rows of data, so no domain can "
                "be refitted. Align all domains again."
            )
        return self.evidence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all but the rows of data to one file; ``unshift.load`` gives the same bits back."""
        storage.write(path, *_packed(self))

    def __repr__(self) -> str:
        """The domains, and the largest discrepancy left."""
        worst = max(self.mmd2, key=self.mmd2.__getitem__)
        return (
            f"<ManyAlignment of {', '.join(map(repr, self.maps))}: reference {self.reference!r}, "
            f"{self.n_components} components, MMD² at most {self.mmd2[worst]:.3g} ({worst!r})>"
        )


def align_many(
    domains: Mapping[str, Any],
    *,
    reference: str | None = None,
    y: Mapping[str, Any] | None = None,
    n_components: int | float | str | None = "auto",
    bandwidth: float | str = "auto",
    same_features: bool | str = "auto",
    choice: str = "auto",
    scale: str | None = "auto",
    shrinkage: float | str | None = "auto",
    outliers: str = "auto",
    estimator: Any = None,
    task: str = "auto",
    n_starts: int | str = "auto",
    n_jobs: int | None = None,
    callback: Callback | None = None,
    random_state: Any = None,
) -> ManyAlignment:
    """Find affine maps of many domains into one space, from unpaired rows.

    Each domain is first aligned with the reference, as ``align`` does it; then all rotations but
    the reference's descend in turn on the sum of every domain's MMD² to the pool of all. The result
    does not depend on the order of ``domains``.

    Parameters
    ----------
    domains : mapping of names to arrays or frames, (n_k, d_k)
        Rows of at least two domains, of equal or different widths.
    reference : str, optional
        The domain that sets the space and the bandwidth; by default the first with most rows.
    y : mapping of names to arrays, optional
        Labels where they are known; unknown entries are None, NaN or NA. Those of the reference
        train the predictor that judges each other domain's candidates by that domain's labels.
    n_components, bandwidth, same_features, choice, scale, shrinkage, outliers, estimator, task
        As in ``align``, for all domains alike.
    n_starts, n_jobs, callback, random_state
        As in ``align``; the callback is told which domain is searched.

    Returns
    -------
    ManyAlignment
        Its ``maps["site"]`` is called on the rows of a site; see also ``to_reference``,
        ``diagnosis``, ``refit`` and ``save``.
    """
    check_option(choice, "choice", ("auto", "paper"))
    check_option(task, "task", ("auto", "classification", "regression"))
    settings = SpaceSettings(n_components, bandwidth, same_features, scale, shrinkage, outliers)
    settings.checked()
    check_starts(n_starts)
    reference = _check_domains(domains, reference, {} if y is None else y)
    # by name, so that nothing depends on the order in which the domains came
    order = (reference, *sorted(name for name in domains if name != reference))
    rng = generator(random_state)
    read = {name: read_domain(domains[name], _called(name), None, rng) for name in order}
    _check_widths(reference, read, settings)
    labels = _read_labels(reference, read, {} if y is None else y, task)
    if task == "auto":
        known = labels.get(reference)
        task = "classification" if known is None else task_of(known)
    space = share_space(list(read.values()), settings)
    evidence = PlateEvidence(
        order,
        space,
        Plate((), (), space.sigma),
        draw_examples(read[reference], labels.get(reference), rng),
        task,
        estimator,
        choice,
        outliers,
    )
    effort = {"n_starts": n_starts, "n_jobs": n_jobs}
    pairs = {
        name: evidence.against_reference(
            k, labels.get(name), rng, {**effort, "callback": _told(callback, name)}
        )
        for k, name in enumerate(order)
        if k > 0
    }
    return _joined(evidence, pairs, tuple(domains), callback, rng)


def _called(name: str) -> str:
    return f"domains[{name!r}]"


def _label_names(reference: str, name: str) -> tuple[str, str]:
    return f"y[{reference!r}]", f"y[{name!r}]"


def _told(callback: Callback | None, name: str) -> Callback | None:
    """The callback, told which domain it is about."""
    return None if callback is None else partial(_tell, callback, name)


def _tell(callback: Callback, name: str, stage: str, done: int, total: int) -> object:
    return callback(f"{name}: {stage}", done, total)


def _check_names(names: Sequence[Any]) -> None:
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise TypeError(f"Names of domains should be strings; got {wrong[:5]!r}.")


def _check_domains(domains: Any, reference: Any, y: Any) -> str:
    """Refuse what is no mapping of domains, and settle the reference."""
    for value, name in ((domains, "domains"), (y, "y")):
        if not isinstance(value, Mapping):
            raise TypeError(
                f"{name} should be a mapping of names, {{'site': ...}}; got {type(value).__name__}."
            )
    _check_names(list(domains))
    if len(domains) < 2:
        raise ValueError(
            f"align_many needs at least two domains; got {list(domains)}. One domain has nothing "
            "to be aligned with."
        )
    if reference is not None and reference not in list(domains):
        raise ValueError(f"reference={reference!r} is none of the domains: {list(domains)}.")
    unknown = [name for name in y if name not in domains]
    if unknown:
        raise ValueError(
            f"y has labels for {unknown}, which are none of the domains: {list(domains)}."
        )
    if reference is None:
        rows = {name: check_matrix(X, _called(name)).shape[0] for name, X in domains.items()}
        reference = max(rows, key=rows.__getitem__)
    return str(reference)


def _check_widths(reference: str, read: Mapping[str, Domain], settings: SpaceSettings) -> None:
    """Where columns are said to correspond, there must be as many in each domain."""
    widths = {name: domain.rows.shape[1] for name, domain in read.items()}
    others = [f"{name!r} has {w}" for name, w in widths.items() if w != widths[reference]]
    if settings.same_features is True and others:
        raise ValueError(
            f"same_features=True, but the reference {reference!r} has {widths[reference]} columns "
            f"and {', '.join(others)}: columns can only correspond where there are as many. "
            "Use same_features=False."
        )


def _read_labels(
    reference: str, read: Mapping[str, Domain], y: Mapping[str, Any], task: str
) -> dict[str, Labels]:
    labels = {
        name: read_labels(y[name], domain.rows.shape[0], f"y[{name!r}]")
        for name, domain in read.items()
        if y.get(name) is not None
    }
    source = labels.get(reference)
    if task == "auto":
        task = "classification" if source is None else task_of(source)
    for name in read:
        target = None if name == reference else labels.get(name)
        check_labels(source, target, task, _label_names(reference, name))
    return labels


def _joined(
    evidence: PlateEvidence,
    pairs: Mapping[str, Alignment],
    names: Sequence[str],
    callback: Callback | None,
    rng: np.random.Generator,
) -> ManyAlignment:
    """All domains descended together from where their pairwise alignments put them."""
    order, space = evidence.order, evidence.space
    for k, name in enumerate(order):
        evidence = replace(evidence, plate=evidence.placed(k, pairs.get(name), rng))
    plate, path = descend_in_turn(evidence.plate, range(1, len(order)), callback)
    evidence = replace(evidence, space=space.trimmed(), plate=plate)
    maps = {name: evidence.maps(order.index(name), pairs.get(name)) for name in names}
    others = [name for name in names if name != order[0]]
    return ManyAlignment(
        reference=order[0],
        maps={name: shared for name, (shared, _) in maps.items()},
        to_reference={name: back for name, (_, back) in maps.items()},
        rotations={name: plate.rotations[order.index(name)] for name in names},
        mmd2=_discrepancies(plate, order, names),
        objective_path=path,
        diagnosis={name: pairs[name].diagnosis for name in others},
        alignments={name: pairs[name] for name in others},
        n_components=space.p,
        bandwidth=space.sigma,
        evidence=evidence,
    )


def _discrepancies(plate: Plate, order: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    return {name: plate.discrepancy(order.index(name)) for name in names}


def load(path: str | os.PathLike[str]) -> Alignment | ManyAlignment:
    """What ``save`` of either wrote: the same bits, without the evidence."""
    header, arrays = storage.read(path)
    with storage.unpacking(path):
        if header["kind"] == KIND:
            return unpack_alignment(header, arrays)
        if header["kind"] == KIND_MANY:
            return _unpacked(header, arrays)
        raise ValueError(f"it says that it holds {header['kind']!r}")


def _packed(many: ManyAlignment) -> tuple[dict[str, Any], storage.Arrays]:
    arrays: storage.Arrays = {"path": many.objective_path}
    entries = []
    for i, name in enumerate(many.maps):
        entry: dict[str, Any] = {"name": name, "mmd2": many.mmd2[name]}
        entry["map"] = storage.pack_map(many.maps[name], f"{i}.map", arrays)
        entry["back"] = storage.pack_map(many.to_reference[name], f"{i}.back", arrays)
        rotation = many.rotations[name]
        if rotation is not None:
            arrays[f"{i}.rotation"] = rotation
        if name in many.alignments:
            entry["pair"], of_pair = pack_alignment(many.alignments[name])
            arrays.update({f"{i}.pair.{key}": array for key, array in of_pair.items()})
        entries.append(entry)
    header = {
        "kind": KIND_MANY,
        "reference": many.reference,
        "n_components": many.n_components,
        "bandwidth": many.bandwidth,
        "domains": entries,
    }
    return header, arrays


def _unpacked(header: dict[str, Any], arrays: storage.Arrays) -> ManyAlignment:
    entries = {entry["name"]: (i, entry) for i, entry in enumerate(header["domains"])}
    pairs = {}
    for name, (i, entry) in entries.items():
        if "pair" in entry:
            key = f"{i}.pair."
            own = {k.removeprefix(key): a for k, a in arrays.items() if k.startswith(key)}
            pairs[name] = unpack_alignment(entry["pair"], own)
    return ManyAlignment(
        reference=header["reference"],
        maps={n: storage.unpack_map(e["map"], f"{i}.map", arrays) for n, (i, e) in entries.items()},
        to_reference={
            n: storage.unpack_map(e["back"], f"{i}.back", arrays) for n, (i, e) in entries.items()
        },
        rotations={n: arrays.get(f"{i}.rotation") for n, (i, _) in entries.items()},
        mmd2={n: e["mmd2"] for n, (_, e) in entries.items()},
        objective_path=arrays["path"],
        diagnosis={n: pair.diagnosis for n, pair in pairs.items()},
        alignments=pairs,
        n_components=header["n_components"],
        bandwidth=header["bandwidth"],
    )
