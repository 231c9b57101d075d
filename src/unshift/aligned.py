"""What the estimators share: reading domains, aligning them, mapping rows of either."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ._arrays import FloatArray
from ._checks import check_matrix, check_option, check_starts
from .align import align, align_one
from .alignment import Alignment
from .joint import check_loss_weights
from .stacked import Domains, read_domains, refuse_unrouted, splitter, target_rows

# Parameters that go to the shared space, and those that go to the search and the choice.
SPACE = ("n_components", "bandwidth", "same_features", "scale", "shrinkage", "outliers")
SEARCH = ("choice", "loss", "loss_weights", "n_starts", "n_jobs")


class Aligned(BaseEstimator):  # type: ignore[misc]
    """Parameters, and what ``fit`` and the methods that take rows have in common."""

    alignment_: Alignment
    # Whether fit was called by what cuts rows into folds: held-out rows are then of both domains.
    _split: bool

    def __init__(
        self,
        *,
        n_components: int | float | str | None = "auto",
        bandwidth: float | str = "auto",
        same_features: bool | str = "auto",
        choice: str = "auto",
        loss: str = "mmd",
        loss_weights: tuple[float, float] | str = "auto",
        scale: str | None = "auto",
        shrinkage: float | str | None = "auto",
        outliers: str = "auto",
        n_starts: int | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.same_features = same_features
        self.choice = choice
        self.loss = loss
        self.loss_weights = loss_weights
        self.scale = scale
        self.shrinkage = shrinkage
        self.outliers = outliers
        self.n_starts = n_starts
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _parameters(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    def _read(self, task: str, X: Any, y: Any, **given: Any) -> Domains:
        """The domains that ``fit`` was given; their columns are noted for later calls."""
        domains = read_domains(X, y, task=task, **given)
        validate_data(self, X, skip_check_array=True, reset=True)
        target = copy.copy(self)
        if domains.target is not None and not domains.stacked:
            validate_data(target, domains.target, skip_check_array=True, reset=True)
        self.n_features_target_ = target.n_features_in_
        self.feature_names_target_ = getattr(target, "feature_names_in_", None)
        self.stacked_ = domains.stacked
        self._split = splitter() is not None
        return domains

    def _aligned(self, domains: Domains, adapted: bool, estimator: Any = None) -> Alignment:
        """The alignment of two domains; of one, ``adapted`` says whether it is whitened."""
        space = self._parameters(SPACE)
        if domains.target is None:
            # of no use here, but what makes no sense is refused whatever comes
            check_option(self.choice, "choice", ("auto", "paper"))
            check_option(self.loss, "loss", ("mmd", "joint"))
            check_loss_weights(self.loss_weights)
            check_starts(self.n_starts)
            return align_one(
                domains.source,
                adapted=adapted,
                sample_weight=domains.weights_source,
                random_state=self.random_state,
                **space,
            )
        return align(
            domains.source,
            domains.target,
            domains.y_source,
            domains.y_target,
            estimator=estimator,
            task=domains.task,
            sample_weight_source=domains.weights_source,
            sample_weight_target=domains.weights_target,
            random_state=self.random_state,
            **space,
            **self._parameters(SEARCH),
        )

    def _to_shared(self, X: Any, domain: str | None, sample_domain: Any, method: str) -> FloatArray:
        """Rows in the shared space, each through its own domain's map."""
        check_is_fitted(self)
        rows = check_matrix(X, "X", min_rows=1)
        maps = {"source": self.alignment_.source, "target": self.alignment_.target}
        if sample_domain is None:
            if domain is None and self.stacked_ and self._split:
                refuse_unrouted(method)
            domain = "target" if domain is None else domain
            check_option(domain, "domain", tuple(maps))
            self._check_columns(X, domain)
            mapped: FloatArray = maps[domain](rows)
            return mapped
        if domain is not None:
            raise ValueError(
                "Both domain and sample_domain were given: pass domain where all rows are of one "
                "domain, or sample_domain with one domain a row."
            )
        of_target = target_rows(sample_domain, rows.shape[0])
        shared = np.empty((rows.shape[0], maps["source"].width_out), dtype=rows.dtype)
        for name, mask in (("source", ~of_target), ("target", of_target)):
            if mask.any():
                self._check_columns(X, name)
                shared[mask] = maps[name](rows[mask])
        return shared

    def _repr_html_inner(self) -> str:
        """Scikit-learn's diagram, and once fitted what was found below it."""
        return str(super()._repr_html_inner()) + self._found()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._found()
        return bundle

    def _found(self) -> str:
        return self.alignment_._repr_html_() if hasattr(self, "alignment_") else ""

    def _check_columns(self, X: Any, domain: str) -> None:
        """Refuse other columns than those of the domain at fit, in scikit-learn's own words."""
        fitted = self
        if domain == "target":
            fitted = copy.copy(self)
            fitted.n_features_in_ = self.n_features_target_
            # In scikit-learn, None is the same as no such attribute: the columns have no names.
            fitted.feature_names_in_ = self.feature_names_target_
        validate_data(fitted, X, skip_check_array=True, reset=False)
