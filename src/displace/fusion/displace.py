"""DisPlace: references fused in the space that keeps what tells places apart."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from sklearn.utils.validation import check_is_fitted

from displace.arrays import Indices, Vectors, l2_normalize
from displace.errors import ConditioningWarning, InputError, SingularScatterError
from displace.fusion.base import Rows, VectorFusion, is_number, is_whole
from displace.fusion.solver import tuning
from displace.fusion.solver.eigen import ROUTES, Solution, solve, thin_basis
from displace.fusion.solver.scatter import Scatter
from displace.references import ReferenceSet, slot_of_each, sum_by

WARN_ABOVE = 0.2
"""γ above which the paper's setting, no ridge, is warned about."""


class DisPlace(VectorFusion):
    """Discriminative place projections for several reference traversals.

    The references of all places determine a within-place scatter S_W (what weather, light and viewpoint change) and a
    between-place scatter S_B (what tells places apart). The leading solutions of S_B v = λ S_W v, scaled so that
    vᵀS_W v = 1, project references and queries; a place is the normalised sum of its projected references.

    Parameters
    ----------
    tau : float, default 0.95
        Keep the fewest leading eigenvectors whose eigenvalues reach this share of the sum of the positive ones.
    ridge : float or "auto", default "auto"
        ε: ε·tr(S_W)/D is added to the diagonal of S_W. "auto" decides from the data (`displace.fusion.solver.tuning`);
        0 is the paper.
    center : bool or "auto", default "auto"
        Subtract the mean of the place means before projecting. "auto" decides from the data; False is the paper.
    solver : {"auto", "gram", "direct", "staged", "qr"}, default "auto"
        Route to the solution (`displace.fusion.solver.eigen`); "auto" takes the fastest for the sizes.
    n_components : int, optional
        Keep this many eigenvectors, whatever `tau`; at most places − 1.

    Attributes
    ----------
    projection_ : array of shape (D, n)
        P.
    eigenvalues_ : array
        All eigenvalues, descending.
    n_components_ : int
        n.
    place_vectors_ : array of shape (N, n)
        One unit vector for each place of `place_ids_`.
    mean_ : array of shape (D,)
        What is subtracted before projecting: zeros where `center_` is False.
    ridge_, center_ : float, bool
        The settings used; `explain()` says why.
    sampling_ratio_ : float
        γ = D/Σ(K_p − 1); above about 0.2 the references do not determine S_W well.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> places = rng.normal(size=(50, 16))                   # what 50 places look like
    >>> sun, rain, dusk = (places + rng.normal(size=(50, 16)) * np.r_[[2.0] * 8, [0.1] * 8] for _ in range(3))
    >>> fusion = DisPlace().fit(np.concatenate([sun, rain]), np.tile(np.arange(50), 2))
    >>> float(np.mean(fusion.predict(dusk) == np.arange(50)))
    1.0
    """

    title = "DisPlace"
    compared = ({}, {"tau": 1.0}, {"ridge": 0.0, "center": False})
    projection_: Vectors
    mean_: Vectors

    def __init__(
        self,
        tau: float = 0.95,
        ridge: float | str = "auto",
        center: bool | str = "auto",
        solver: str = "auto",
        n_components: int | None = None,
    ) -> None:
        self.tau = tau
        self.ridge = ridge
        self.center = center
        self.solver = solver
        self.n_components = n_components

    def statistics(self, refs: ReferenceSet) -> Scatter:
        """Counts and means of the places, and the within scatter."""
        return Scatter.of(_squarable(refs.vectors), refs.places)

    def from_statistics(self, statistics: Scatter, refs: ReferenceSet | None = None) -> Self:
        """Fit on statistics; without references, what is "auto" is decided by rule.

        Parameters
        ----------
        statistics : Scatter
            Of the references; its `place_ids` become the place ids.
        refs : ReferenceSet, optional
            The references themselves, to hold some out.
        """
        dim = statistics.means.shape[1]
        self.place_ids_, self.n_features_in_ = statistics.place_ids, dim
        self._check_parameters(len(self.place_ids_), dim)
        if refs is None:
            none = np.empty(0, np.intp)
            self._learn(statistics.means[:0], none, none, statistics.numbered())
        else:
            index = np.searchsorted(self.place_ids_, refs.places)
            self._learn(refs.vectors, index, refs.traversals, statistics.numbered())
        return self

    def rows_of(self, statistics: Scatter) -> Vectors:
        """Project the means of some places, as those of all were."""
        return statistics.projected(self.projection_, self.mean_)

    def wants_references(self, n_places: int, dim: int, n_traversals: int) -> bool:
        """Whether a setting is open and cross-validation would decide it."""
        n_folds = min(n_traversals, tuning.MAX_FOLDS)
        return (
            "auto" in (self.ridge, self.center) and n_folds >= 3 and tuning.affordable(n_places, dim, n_folds)
        )

    def settings(self) -> dict[str, Any]:
        """Parameters with ridge and centring as decided; what plain retrieval could not decide stays open."""
        decided = {} if self._plain else {"ridge": float(self.ridge_), "center": bool(self.center_)}
        return {**self.get_params(), **decided}

    def explain(self) -> str:
        """Say in one line which settings were used, and why."""
        check_is_fitted(self)
        return (
            f"ridge {self.ridge_:.3g}, {'centred' if self.center_ else 'not centred'}, "
            f"{self.n_components_} of {self.n_features_in_} dimensions, γ = {self.sampling_ratio_:.3g}: "
            f"{self.settings_.reason}"
        )

    @property
    def _plain(self) -> bool:
        """Whether there was nothing to discriminate by, so that no eigenproblem was solved."""
        return self.eigenvalues_.size == 0

    def _stored(self) -> Rows:
        """The place vectors; no projection after falling back, and no mean where it is not used."""
        rows = super()._stored()
        projection = None if self._plain else rows.projection
        return Rows(rows.vectors, rows.place_index, projection, rows.mean if self.center_ else None)

    def _fit(self, X: Vectors, index: Indices, traversals: NDArray[Any] | None) -> None:
        self._check_parameters(len(self.place_ids_), X.shape[1])
        self._learn(X, index, slot_of_each(index, None) if traversals is None else traversals, None)

    def _learn(
        self, X: Vectors, index: Indices, traversals: NDArray[Any], statistics: Scatter | None
    ) -> None:
        """Decide the settings and solve; `X` may be empty where there are statistics."""
        dim = X.shape[1]
        basis, coordinates, scatter = self._coordinates(_squarable(X), index, statistics)
        problem = tuning.Problem(coordinates, index, traversals, scatter, dim, self.tau, self.n_components)
        self.sampling_ratio_ = problem.sampling_ratio
        useless = _why_no_projection(scatter)
        if useless:
            sums = sum_by(X, index, len(self.place_ids_)) if len(X) else scatter.means
            self._retrieve_plainly(sums, useless)
            return
        self._decide(problem)
        try:
            solution = self._solve(scatter, dim)
        except LinAlgError:  # too ill-conditioned for float32: once more in float64
            again = None if len(X) or statistics is None else statistics.astype(np.float64)
            basis, _, scatter = self._coordinates(X.astype(np.float64), index, again)
            try:
                solution = self._solve(scatter, dim)
            except LinAlgError:
                raise self._singular(scatter, dim) from None
        self._keep(solution, scatter, basis, X.dtype)

    def _decide(self, problem: tuning.Problem) -> None:
        """Settle the settings, and check that they can work."""
        self.settings_ = tuning.decide(problem, self.ridge, self.center)
        self.ridge_, self.center_ = self.settings_.ridge, self.settings_.center
        self._check_conditioning(problem.scatter, problem.dim)

    def _coordinates(
        self, X: Vectors, index: Indices, statistics: Scatter | None
    ) -> tuple[Vectors | None, Vectors, Scatter]:
        """Basis of the references' span where it is smaller than the space, coordinates in it, and their scatter."""
        if self.solver in ("auto", "qr") and 0 < len(X) < X.shape[1]:
            basis, coordinates = thin_basis(X)
            return basis, coordinates, Scatter.of(coordinates, index)
        return None, X, Scatter.of(X, index) if statistics is None else statistics

    def _solve(self, scatter: Scatter, dim: int) -> Solution:
        ridge = self.ridge_ * scatter.within_trace() / dim
        return solve(scatter, ridge, self.tau, self.n_components, self.solver)

    def _keep(self, solution: Solution, scatter: Scatter, basis: Vectors | None, dtype: Any) -> None:
        """Store the result, brought back from the references' span where it was computed there."""
        P = solution.projection
        mean = scatter.mean.astype(P.dtype) * self.center_
        self.place_vectors_ = scatter.projected(P, mean).astype(dtype, copy=False)
        self.projection_ = (P if basis is None else basis @ P).astype(dtype, copy=False)
        self.mean_ = (mean if basis is None else basis @ mean).astype(dtype, copy=False)
        self.eigenvalues_ = solution.eigenvalues
        self.n_components_ = P.shape[1]

    def _check_parameters(self, n_places: int, dim: int) -> None:
        if self.solver not in ROUTES:
            raise InputError(f"solver={self.solver!r} must be one of {', '.join(ROUTES)}")
        if not (is_number(self.tau) and 0 < self.tau <= 1):
            raise InputError(f"tau={self.tau!r} must be a number above 0 and at most 1")
        ridge = 0.0 if self.ridge == "auto" else self.ridge
        if not (is_number(ridge) and 0 <= ridge < np.inf):
            raise InputError(f"ridge={self.ridge!r} must be 'auto' or a finite number of at least 0")
        if not (self.center == "auto" or isinstance(self.center, bool | np.bool_)):
            raise InputError(f"center={self.center!r} must be 'auto', True or False")
        n, limit = self.n_components, min(n_places - 1, dim)
        if n is not None and not (is_whole(n) and 1 <= n <= max(limit, 1)):
            raise InputError(
                f"n_components={n!r} must be None or a whole number of at least 1 and at most {limit} "
                f"(places − 1, or the descriptors' dimension); got {n_places} places of {dim} dimensions"
            )

    def _retrieve_plainly(self, sums: Vectors, why: str) -> None:
        """Fall back to plain retrieval: P = I, nothing subtracted."""
        warnings.warn(
            f"DisPlace falls back to plain retrieval (the normalised sum of references): {why}. "
            "It needs at least two places, with two different references for some of them.",
            ConditioningWarning,
            stacklevel=5,
        )
        dim = sums.shape[1]
        self.settings_ = tuning.Settings(0.0, False, f"plain retrieval, because {why}", {})
        self.ridge_, self.center_ = 0.0, False
        self.place_vectors_ = l2_normalize(sums)
        self.projection_ = np.eye(dim, dtype=sums.dtype)
        self.mean_ = np.zeros(dim, sums.dtype)
        self.eigenvalues_ = np.empty(0)
        self.n_components_ = dim

    def _check_conditioning(self, scatter: Scatter, dim: int) -> None:
        if self.ridge_ > 0:
            return
        if scatter.freedom < dim:
            raise self._singular(scatter, dim)
        if self.sampling_ratio_ > WARN_ABOVE:
            warnings.warn(
                f"γ = {self.sampling_ratio_:.2f}: {scatter.n_references} references of {len(scatter.counts)} places "
                f"determine the within-place scatter in {dim} dimensions poorly, and ridge=0 does nothing about it; "
                'ridge="auto" does',
                ConditioningWarning,
                stacklevel=5,
            )

    def _singular(self, scatter: Scatter, dim: int) -> SingularScatterError:
        n, m = len(scatter.counts), scatter.n_references
        return SingularScatterError(
            f"the within-place scatter is singular: {m} references of {n} places give {m - n} deviations in {dim} "
            f"dimensions (γ = D/Σ(K_p − 1) = {self.sampling_ratio_:.2f}), and ridge={self.ridge_:g} cannot mend it. "
            'Use ridge="auto", add traversals, or project to fewer dimensions first'
        )


def _squarable(X: Vectors) -> Vectors:
    """Return X, in float64 where sums of squares of its values would come near the end of float32's range."""
    largest = max(float(X.max(initial=0)), -float(X.min(initial=0)))
    fits = X.dtype != np.float32 or largest == 0 or 1e-12 < largest < 1e12
    return X if fits else X.astype(np.float64)


def _why_no_projection(scatter: Scatter) -> str:
    """Say why the references carry nothing to discriminate by; empty where they do."""
    if len(scatter.counts) == 1:
        return "there is one place only"
    if scatter.freedom == 0:
        return "no place has more than one reference"
    if scatter.within_trace() == 0:
        return "the references of each place are all equal"
    if scatter.means_are_equal():
        return "all places have the same mean"
    return ""
