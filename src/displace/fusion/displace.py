"""DisPlace: references fused in a space that keeps what distinguishes places."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from displace.arrays import Indices, Vectors, check_one_of, l2_normalize
from displace.errors import ConditioningWarning, FallbackWarning, InputError, SingularScatterError
from displace.fusion.base import (
    AS_GIVEN,
    Fusion,
    Rows,
    Statistics,
    VectorFusion,
    is_number,
    is_whole,
    unit_rows,
)
from displace.fusion.pooling import Pooling
from displace.fusion.solver import tuning
from displace.fusion.solver.contest import Problem, place_means
from displace.fusion.solver.eigen import ROUTES, Solution, solve, thin_basis
from displace.fusion.solver.kept_references import KeptViews
from displace.fusion.solver.scatter import Scatter
from displace.fusion.solver.tuning import Settings
from displace.fusion.solver.views import Views, group_views, merged, several_images
from displace.references import ReferenceSet, as_ids, slot_of_each, sum_by

AT_HAND = 2**30
"""Bytes of references that may be read at once to decide the settings of a streamed build."""
WARN_ABOVE = 0.2
"""γ above which the paper's setting, no ridge, is warned about."""


class DisPlace(VectorFusion):
    """Discriminative place projections for several reference traversals.

    The references of all places determine a within-place scatter S_W (what weather, light and season change) and a
    between-place scatter S_B (what tells places apart). The leading solutions of S_B v = λ S_W v, scaled so that
    vᵀS_W v = 1, project references and queries; a place is the normalised sum of its projected references.

    Where a traversal has several images of a place, S_W is taken within *views*, over traversals, and every view is a
    row of its own (`displace.fusion.solver.views`). Where no view is seen in two traversals, nothing is known about
    condition change: then nothing is projected, and every reference is a row. Where traversals can be held out, HOPS
    and pooling are compared with, and taken where they are ahead. `explain()` says what was decided, and why.

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
    n_rows : int, "all" or "auto", default "auto"
        Most rows a place; its views are merged down to these. "all" makes every reference a row. "auto" is a row for
        each view, or as few as held-out traversals allow.
    views : bool or "auto", default "auto"
        Tell the views of a place apart. "auto" does where traversals are labelled and `ridge` or `center` is "auto";
        False is the paper: the references of a place differ by condition only.
    project : bool or "auto", default "auto"
        False leaves P = I, nothing subtracted. "auto" decides, where `ridge` and `center` are "auto"; otherwise True.

    Attributes
    ----------
    projection_ : array of shape (D, n)
        P.
    eigenvalues_ : array
        All eigenvalues, descending; empty where P = I.
    n_components_ : int
        n.
    place_vectors_ : array of shape (R, n)
        Unit vectors: one for each place of `place_ids_`, or several, those of a place side by side.
    row_places_ : array of shape (R,)
        Index in `place_ids_` of each one's place.
    mean_ : array of shape (D,)
        What is subtracted before projecting: zeros where `center_` is False.
    ridge_, center_ : float, bool
        The settings used; `explain()` says why.
    sampling_ratio_ : float
        γ = D/Σ(K − 1), the sum over the views of all places; above about 0.2 the references do not determine S_W well.

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
    row_places_: Indices

    def __init__(
        self,
        tau: float = 0.95,
        ridge: float | str = "auto",
        center: bool | str = "auto",
        solver: str = "auto",
        n_components: int | None = None,
        n_rows: int | str = "auto",
        views: bool | str = "auto",
        project: bool | str = "auto",
    ) -> None:
        self.tau = tau
        self.ridge = ridge
        self.center = center
        self.solver = solver
        self.n_components = n_components
        self.n_rows = n_rows
        self.views = views
        self.project = project

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        traversals: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit on references.

        Parameters
        ----------
        X : array of shape (m, D)
            Reference descriptors.
        y : array of shape (m,)
            Place id of each reference; a place may have any number of references.
        traversals : array of shape (m,), optional
            Traversal of each reference. Without it the references of a place count as different conditions.
        groups : array of shape (m,), optional
            View of each reference, such as a heading or a camera. Without it views are found where traversals have
            several references of a place.
        """
        vectors, index, labels = self._checked(X, y, traversals)
        given = None if groups is None else as_ids(groups, len(vectors), "groups")
        self._check_parameters(len(self.place_ids_), vectors.shape[1])
        self._fit(vectors, index, labels, given)
        return self

    def fit_references(self, refs: ReferenceSet) -> Self:
        """Fit on references with their traversals and, if given, views."""
        return self.fit(refs.vectors, refs.places, refs.traversals, refs.groups)

    def statistics(self, refs: ReferenceSet) -> Scatter | KeptViews:
        """Counts and means of the places, and the within scatter; or the references, if views are separated."""
        if self._keeps_references(refs):
            return KeptViews.of(refs)
        return Scatter.of(_squarable(refs.vectors), refs.places)

    def further_statistics(self, refs: ReferenceSet, before: Any) -> Scatter | KeptViews:
        """Statistics of the kind that the map has, whatever the new references would be by themselves."""
        if isinstance(before, KeptViews):
            return KeptViews.of(refs)
        return Scatter.of(_squarable(refs.vectors), refs.places)

    def kept_statistics(self, statistics: Any, refs: ReferenceSet) -> Scatter | KeptViews:
        """Return the statistics it was fitted on, or the references where each of them became a row."""
        if isinstance(statistics, Scatter) and self.settings()["n_rows"] == "all":
            return KeptViews.of(refs)
        kept: Scatter | KeptViews = statistics
        return kept

    def references_in(self, statistics: Any) -> ReferenceSet | None:
        """The references themselves, if views are separated."""
        return statistics.references() if isinstance(statistics, KeptViews) else None

    def from_statistics(self, statistics: Scatter | KeptViews, refs: ReferenceSet | None = None) -> Self:
        """Fit on statistics; without references, to hold some out, what is "auto" is decided by rule."""
        if isinstance(statistics, KeptViews):
            return self.fit(statistics.vectors, statistics.places, statistics.traversals, statistics.groups)
        dim = statistics.means.shape[1]
        self.place_ids_, self.n_features_in_ = statistics.place_ids, dim
        self._check_parameters(len(self.place_ids_), dim)
        if refs is None:
            none = np.empty(0, np.intp)
            self._fit(statistics.means[:0], none, None, None, statistics.numbered())
        else:
            index = np.searchsorted(self.place_ids_, refs.places)
            self._fit(refs.vectors, index, refs.traversals, None, statistics.numbered())
        return self

    def rows_of(self, statistics: Scatter) -> Vectors:
        """Project the means of some places, as those of all were."""
        return statistics.projected(self.projection_, self.mean_)

    def wants_references(self, n_places: int, dim: int, n_traversals: int) -> bool:
        """Whether a setting is open and cross-validation would decide it."""
        n_folds = min(n_traversals, tuning.MAX_FOLDS)
        if n_folds < 3 or not self._open:
            return False
        extent = tuning.affordable(n_places, dim, n_folds)
        return extent == "whole" or (extent == "few" and 4 * n_places * n_traversals * dim <= AT_HAND)

    def for_blocks(self, places: NDArray[Any], traversals: NDArray[Any]) -> Fusion:
        """Return DisPlace with one view a place; without repeated views pooling; else an error with the way out."""
        if not self._tells_views_apart(labelled=True):
            return super().for_blocks(places, traversals)
        labels = np.unique(traversals, return_inverse=True)[1]
        index = np.unique(places, return_inverse=True)[1]
        if not several_images(index, labels):
            one_view: Fusion = clone(self).set_params(views=False, project=True)
            return one_view
        if not labels.any():
            return Pooling()
        raise InputError(
            "traversals have several images of a place, and telling their views apart needs all references in memory: "
            "choose DisPlace(views=False), fusion='pooling', or a machine with more memory"
        )

    @classmethod
    def restored_statistics(
        cls, arrays: Mapping[str, NDArray[Any]], rows: Vectors, places: NDArray[Any]
    ) -> Statistics:
        """Return the statistics whose `to_arrays` gave `arrays`."""
        if KeptViews.are(arrays):
            return KeptViews.from_arrays(arrays)
        return super().restored_statistics(arrays, rows, places)

    def settings(self) -> dict[str, Any]:
        """Parameters as decided; what was left open because nothing is known about conditions stays open."""
        # A given value stays: it determines the kind of the map's statistics.
        views = self.views_.kind != "one" if self.views == "auto" else bool(self.views)
        found = {**super().settings(), "views": views}
        if self._undecided:
            return found
        decided = self.settings_
        rows: int | str = "all" if decided.rows is None else decided.rows
        if decided.projects and rows == "all" and self.n_rows != "all":
            rows = int(np.bincount(self.row_places_).max())
        if decided.projects:
            found |= {"ridge": float(self.ridge_), "center": bool(self.center_)}
        return {**found, "n_rows": rows, "project": decided.projects}

    def explain(self) -> str:
        """Describe in one line which settings were used, and why."""
        check_is_fitted(self)
        most = int(np.bincount(self.row_places_).max())
        rows = "" if most == 1 else f", up to {most} rows a place"
        views = f"; {self.views_.reason}" if self.views_.kind in ("given", "found") else ""
        if self._plain:
            return f"P = I{rows or ', one row a place'}: {self.settings_.reason}{views}"
        return (
            f"ridge {self.ridge_:.3g}, {'centred' if self.center_ else 'not centred'}, "
            f"{self.n_components_} of {self.n_features_in_} dimensions, γ = {self.sampling_ratio_:.3g}{rows}: "
            f"{self.settings_.reason}{views}"
        )

    def outgrown(self, before: Any, after: Any, chosen_at: float | None = None) -> str:
        """Report if γ, by which the ridge was chosen, has halved or doubled since."""
        if self._plain or not isinstance(before, Scatter) or not before.within.size:
            return ""
        was, is_now = before.sampling_ratio if chosen_at is None else chosen_at, after.sampling_ratio
        # Twice the freedom, as of a third traversal beside two, halves γ exactly: a quotient by 2 is not rounded.
        if was == is_now or 0.5 < is_now / was < 2:
            return ""
        return f"the ridge {self.ridge_:.3g} was chosen at γ = {was:.3g}, which is now {is_now:.3g}"

    def spectrum(self) -> Vectors:
        """All eigenvalues, descending; empty where P = I."""
        return self.eigenvalues_

    @property
    def _plain(self) -> bool:
        """Whether nothing is projected."""
        return self.eigenvalues_.size == 0

    @property
    def _open(self) -> bool:
        """Whether a setting of the projection is "auto"."""
        return isinstance(self.ridge, str) or isinstance(self.center, str)

    def _keeps_references(self, refs: ReferenceSet) -> bool:
        """Whether an update needs the references, because statistics of places would mix views and conditions."""
        if self.n_rows == "all" or self.views not in ("auto", False):
            return True
        if not self._tells_views_apart(labelled=True):
            return False
        index = np.searchsorted(refs.place_ids, refs.places)
        return group_views(refs.vectors, index, refs.traversals, refs.groups).kind != "one"

    def _tells_views_apart(self, labelled: bool) -> bool:
        if self.views == "auto":
            return labelled and (self._open or is_whole(self.n_rows))
        return bool(self.views)

    def _stored(self) -> Rows:
        """The place vectors; no projection if P = I, and no mean if not centred."""
        projection = None if self._plain else self.projection_
        return Rows(self.place_vectors_, self.row_places_, projection, self.mean_ if self.center_ else None)

    def _layers(self) -> int:
        return 1 + (len(self.row_places_) - 1) // len(self.place_ids_)

    def _fit(
        self,
        X: Vectors,
        index: Indices,
        traversals: NDArray[Any] | None,
        groups: NDArray[Any] | None = None,
        statistics: Scatter | None = None,
    ) -> None:
        """Separate views, decide the settings and solve; `X` may be empty if there are statistics."""
        self.views_ = views = self._views(X, index, traversals, groups)
        slots = slot_of_each(views.index, None) if traversals is None else traversals
        if views.kind != "one":
            statistics = None  # they are of places
        self._undecided = False
        if not self.project or views.kind == "apart":
            self._undecided = views.kind == "apart"
            reason = views.reason if self._undecided else AS_GIVEN
            settings = Settings(0.0, False, reason, rows=self._plain_rows(), projects=False)
            self._retrieve(X, index, statistics, settings)
            return
        dim = X.shape[1]
        basis, coordinates, scatter = self._coordinates(_squarable(X), views.index, statistics)
        problem = Problem(
            coordinates, views.index, slots, scatter, views.places, dim, self.tau, self.n_components
        )
        self.sampling_ratio_ = problem.sampling_ratio
        useless = _why_no_projection(scatter, len(self.place_ids_))
        if useless:
            self._undecided = True
            self._warn_of_fallback(useless)
            settings = Settings(0.0, False, f"plain retrieval, because {useless}", rows=1, projects=False)
            self._retrieve(X, index, statistics, settings)
            return
        self._decide(problem)
        if not self.settings_.projects:
            self._retrieve(X, index, statistics, self.settings_)
            return
        try:
            solution = self._solve(scatter, dim)
        except LinAlgError:  # too ill-conditioned for float32: once more in float64
            again = None if len(X) or statistics is None else statistics.astype(np.float64)
            basis, coordinates, scatter = self._coordinates(X.astype(np.float64), views.index, again)
            try:
                solution = self._solve(scatter, dim)
            except LinAlgError:
                raise self._singular(scatter, dim) from None
        self._keep(solution, scatter, basis, X.dtype)
        if self.n_rows == "all":  # every reference is a row, in the space of the projection
            order = np.argsort(index, kind="stable")
            self.row_places_, self.place_vectors_ = index[order], self._project(X[order])

    def _views(
        self, X: Vectors, index: Indices, traversals: NDArray[Any] | None, groups: NDArray[Any] | None
    ) -> Views:
        labelled = traversals is not None or groups is not None
        if len(X) == 0 or not self._tells_views_apart(labelled):
            return Views.one_each(index, len(self.place_ids_))
        slots = slot_of_each(index, None) if traversals is None else traversals
        return group_views(X, index, slots, groups)

    def _plain_rows(self) -> int | None:
        """Most rows a place where nothing is projected; None for every reference."""
        if self.n_rows == "auto":
            return None if self.views_.kind == "apart" else 1
        return None if self.n_rows == "all" else int(self.n_rows)

    def _decide(self, problem: Problem) -> None:
        """Decide the settings, and check that they are possible."""
        several = problem.several_views
        rows: int | str = self.n_rows if is_whole(self.n_rows) and several else "auto"
        safer = self.project == "auto" and self.n_rows == "auto"
        self.settings_ = tuning.decide(problem, self.ridge, self.center, rows, safer)
        self.ridge_, self.center_ = self.settings_.ridge, self.settings_.center
        if self.settings_.projects:
            self._check_conditioning(problem.scatter, problem.dim)

    def _coordinates(
        self, X: Vectors, index: Indices, statistics: Scatter | None
    ) -> tuple[Vectors | None, Vectors, Scatter]:
        """Basis of the references' span if it is smaller than the space, coordinates in it, and their scatter."""
        if self.solver in ("auto", "qr") and 0 < len(X) < X.shape[1]:
            basis, coordinates = thin_basis(X)
            return basis, coordinates, Scatter.of(coordinates, index)
        return None, X, Scatter.of(X, index) if statistics is None else statistics

    def _solve(self, scatter: Scatter, dim: int) -> Solution:
        ridge = self.ridge_ * scatter.within_trace() / dim
        between = self._between(scatter)
        return solve(between, ridge, self.tau, self.n_components, self.solver)

    def _between(self, scatter: Scatter) -> Scatter:
        """Statistics between whose means S_B is computed: of views, or of places."""
        return place_means(scatter, self.views_.places) if self.settings_.between_places else scatter

    def _keep(self, solution: Solution, scatter: Scatter, basis: Vectors | None, dtype: Any) -> None:
        """Store the result, transformed back from the references' span if it was computed there."""
        P = solution.projection
        mean = self._between(scatter).mean.astype(P.dtype) * self.center_
        rows, places = scatter.projected(P, mean), self.views_.places
        if self.settings_.rows is not None and len(rows) > len(self.place_ids_):
            rows, places = merged(rows, places, self.settings_.rows)
        self.place_vectors_, self.row_places_ = rows.astype(dtype, copy=False), places
        self.projection_ = (P if basis is None else basis @ P).astype(dtype, copy=False)
        self.mean_ = (mean if basis is None else basis @ mean).astype(dtype, copy=False)
        self.eigenvalues_ = solution.eigenvalues
        self.n_components_ = P.shape[1]

    def _retrieve(self, X: Vectors, index: Indices, statistics: Scatter | None, settings: Settings) -> None:
        """Leave P = I, nothing subtracted: one row a place is HOPS, every reference a row is pooling."""
        n = len(self.place_ids_)
        if len(X) == 0:
            assert statistics is not None
            rows, places = l2_normalize(statistics.means), np.arange(n)
        elif settings.rows == 1:
            rows, places = l2_normalize(sum_by(X, index, n)), np.arange(n)
        else:
            order = np.argsort(index, kind="stable")
            rows, places = unit_rows(X, order), index[order]
            if settings.rows is not None:
                rows, places = merged(rows, places, settings.rows)
        dim = X.shape[1]
        self.settings_, self.ridge_, self.center_ = settings, 0.0, False
        self.place_vectors_, self.row_places_ = rows, places
        self.projection_, self.mean_ = np.eye(dim, dtype=X.dtype), np.zeros(dim, X.dtype)
        self.eigenvalues_ = np.empty(0)
        self.n_components_ = dim
        freedom = len(index) - len(self.views_.places)
        self.sampling_ratio_ = dim / freedom if freedom > 0 else float("inf")

    def _check_parameters(self, n_places: int, dim: int) -> None:
        check_one_of(self.solver, ROUTES, "solver")
        if not (is_number(self.tau) and 0 < self.tau <= 1):
            raise InputError(f"tau={self.tau!r} must be a number above 0 and at most 1")
        ridge = 0.0 if self.ridge == "auto" else self.ridge
        if not (is_number(ridge) and 0 <= ridge < np.inf):
            raise InputError(f"ridge={self.ridge!r} must be 'auto' or a finite number of at least 0")
        if not (self.center == "auto" or isinstance(self.center, bool | np.bool_)):
            raise InputError(f"center={self.center!r} must be 'auto', True or False")
        rows = 1 if self.n_rows in ("auto", "all") else self.n_rows
        if isinstance(rows, str) or not (is_whole(rows) and rows >= 1):
            raise InputError(f"n_rows={self.n_rows!r} must be 'auto', 'all' or a whole number of at least 1")
        for name, value in (("views", self.views), ("project", self.project)):
            if not (value == "auto" or isinstance(value, bool | np.bool_)):
                raise InputError(f"{name}={value!r} must be 'auto', True or False")
        n, limit = self.n_components, min(n_places - 1, dim)
        if n is not None and not (is_whole(n) and 1 <= n <= max(limit, 1)):
            raise InputError(
                f"n_components={n!r} must be None or a whole number of at least 1 and at most {limit} "
                f"(places − 1, or the descriptors' dimension); got {n_places} places of {dim} dimensions"
            )

    def _warn_of_fallback(self, why: str) -> None:
        warnings.warn(
            f"DisPlace falls back to plain retrieval (the normalised sum of references): {why}. "
            "It needs at least two places, with two different references for some of them.",
            FallbackWarning,
            stacklevel=4,
        )

    def _check_conditioning(self, scatter: Scatter, dim: int) -> None:
        if self.ridge_ > 0:
            return
        if scatter.freedom < dim:
            raise self._singular(scatter, dim)
        if self.sampling_ratio_ > WARN_ABOVE:
            warnings.warn(
                f"γ = {self.sampling_ratio_:.2f}: {scatter.n_references} references of {len(scatter.counts)} places "
                f"determine the within-place scatter in {dim} dimensions poorly, and ridge=0 does not compensate; "
                'ridge="auto" does',
                ConditioningWarning,
                stacklevel=4,
            )

    def _singular(self, scatter: Scatter, dim: int) -> SingularScatterError:
        n, m = len(scatter.counts), scatter.n_references
        return SingularScatterError(
            f"the within-place scatter is singular: {m} references of {n} places give {m - n} deviations in {dim} "
            f"dimensions (γ = D/Σ(K_p − 1) = {self.sampling_ratio_:.2f}), and ridge={self.ridge_:g} cannot mend it. "
            'Use ridge="auto", add traversals, or project to fewer dimensions first'
        )


def _squarable(X: Vectors) -> Vectors:
    """Return X, in float64 if sums of squares of its values would approach the limits of float32."""
    largest = max(float(X.max(initial=0)), -float(X.min(initial=0)))
    fits = X.dtype != np.float32 or largest == 0 or 1e-12 < largest < 1e12
    return X if fits else X.astype(np.float64)


def _why_no_projection(scatter: Scatter, n_places: int) -> str:
    """Why no projection can be learned from the references; empty if it can."""
    if n_places == 1:
        return "there is one place only"
    if scatter.freedom == 0:
        return "no place has more than one reference"
    if scatter.within_trace() <= scatter.rounding**2:
        return "the references of each place are all equal"
    if scatter.means_are_equal():
        return "all places have the same mean"
    return ""
