"""The generalized eigenproblem S_B v = λ (S_W + ρI) v with vᵀ(S_W + ρI)v = 1, one function per route.

With S_W + ρI = LLᵀ (Cholesky) it becomes the symmetric problem of L⁻¹S_B L⁻ᵀ. After this whitening the cosine between
projected vectors depends on the span of the kept eigenvectors alone, so float32 is enough.

========  ==============================================  ===========================================
route     symmetric problem                               taken by "auto" when
========  ==============================================  ===========================================
gram      N×N: BL⁻ᵀL⁻¹Bᵀ, S_B = BᵀB                       fewer places than dimensions (N − 1 < D)
staged    D×D, tridiagonal, only the n kept eigenvectors  otherwise
direct    D×D, all eigenvectors by one LAPACK driver      never
qr        m×m: references in their own span, then gram    fewer references than dimensions (m < D)
========  ==============================================  ===========================================

`thin_basis` is the first step of route "qr"; the other routes start at `solve`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, eigh, get_blas_funcs, get_lapack_funcs, qr

from displace.arrays import Vectors, blocks
from displace.fusion.solver.scatter import Scatter
from displace.threads import one_blas_thread

ROUTES = ("auto", "gram", "direct", "staged", "qr")
SMALL = 1024
"""Up to this size one thread is fastest."""
WIDE, NARROW, AT_ONCE = 256, 64, 1024
"""Reflectors applied as one matrix, in large and in small problems; vectors that they are applied to at one time."""

ChooseN = Callable[[Vectors], int]


@dataclass(frozen=True)
class Solution:
    """Solution of the generalized eigenproblem."""

    projection: Vectors
    """Shape (D, n). P, its columns the leading generalized eigenvectors."""
    eigenvalues: Vectors
    """Shape (min(D, N − 1),). All eigenvalues, descending, float64; rounding below zero is clipped."""


def choose_n(eigenvalues: Vectors, tau: float) -> int:
    """Fewest leading eigenvalues whose sum reaches `tau` of the sum of the positive ones.

    >>> choose_n(np.array([6.0, 3.0, 1.0, 0.0]), 0.9)
    2
    """
    share = np.cumsum(eigenvalues.clip(min=0))
    n_positive = int(np.count_nonzero(eigenvalues > 0))
    if n_positive == 0:
        return 0
    # The sum of many values differs in its last bits from tau times their total.
    reached = share >= tau * share[-1] * (1 - 1e-12)
    return min(int(np.argmax(reached)) + 1, n_positive) if tau < 1 else n_positive


def pick_route(n_places: int, dim: int) -> str:
    """Return the route for statistics of `n_places` places and `dim` dimensions."""
    return "gram" if n_places - 1 < dim else "staged"


def solve(
    scatter: Scatter,
    ridge: float,
    tau: float = 0.95,
    n_components: int | None = None,
    route: str = "auto",
) -> Solution:
    """Solve the generalized eigenproblem of `scatter`, with the ridge ρ added to the diagonal of S_W.

    Kept are eigenvectors with `tau` of the positive eigenvalues' sum, or `n_components` of them whatever `tau`; those
    with an eigenvalue of 0 never. The route is "auto", "gram", "direct" or "staged". LinAlgError where S_W + ρI is not
    positive definite to the precision of the statistics.
    """
    n_places, dim = scatter.means.shape
    if route in ("auto", "qr"):  # after thin_basis, the rest of "qr" is the automatic choice
        route = pick_route(n_places, dim)
    rank = min(dim, n_places - 1)

    def kept(eigenvalues: Vectors) -> int:
        positive = _clip_rounding(eigenvalues[:rank], scatter.within.dtype)
        if n_components is None:
            return choose_n(positive, tau)
        return min(n_components, int(np.count_nonzero(positive)))

    with one_blas_thread(dim <= SMALL):
        L = _cholesky(scatter, ridge)
        eigenvalues, projection = _REDUCED[route](L, scatter, kept)
    eigenvalues = _clip_rounding(eigenvalues[:rank].astype(np.float64), scatter.within.dtype)
    return Solution(projection, eigenvalues)


def thin_basis(vectors: Vectors) -> tuple[Vectors, Vectors]:
    """Orthonormal basis Q (D, m) of the span of m < D references, and their coordinates (m, m) in it.

    Every vector of S_W and S_B lies in that span, and the ridge acts alike inside and outside of it, so the problem
    in coordinates has the same solution: P = Q·P'.
    """
    Q, R = qr(vectors.T, mode="economic", check_finite=False)
    return Q, np.ascontiguousarray(R.T)


def _cholesky(scatter: Scatter, ridge: float) -> Vectors:
    """L with LLᵀ = S_W + ρI; LinAlgError if it is too ill-conditioned for the statistics' precision."""
    S_W = np.multiply(scatter.within, 1 / scatter.n_references, dtype=scatter.within.dtype, order="F")
    S_W.flat[:: len(S_W) + 1] += ridge
    (potrf,) = get_lapack_funcs(("potrf",), (S_W,))
    L: Vectors
    L, info = potrf(S_W, lower=True, clean=False, overwrite_a=1)
    pivots = np.diagonal(L)
    # A pivot of the size of rounding is as good as zero: its eigenvector would be noise.
    rounding = 4 * np.sqrt(len(L)) * np.finfo(L.dtype).eps
    if info != 0 or (pivots.min() / pivots.max()) ** 2 <= rounding:
        raise LinAlgError(f"S_W is not positive definite in {L.dtype}")
    return L


def _gram(L: Vectors, scatter: Scatter, kept: ChooseN) -> tuple[Vectors, Vectors]:
    """Through the N×N Gram matrix of the whitened place means: G = AᵀA, A = L⁻¹Bᵀ, v = L⁻ᵀA u/√λ."""
    trsm, syrk, gemm = get_blas_funcs(("trsm", "syrk", "gemm"), (L,))
    A = trsm(1, L, scatter.between_rows().T, lower=True, overwrite_b=1)
    G = syrk(1, A, trans=True, lower=True)
    eigenvalues, U = _symmetric(G, kept)
    V = gemm(1, A, U / np.sqrt(eigenvalues[: U.shape[1]]).astype(U.dtype))
    return eigenvalues, trsm(1, L, V, lower=True, trans_a=True, overwrite_b=1)


def _full(
    L: Vectors, scatter: Scatter, kept: ChooseN, symmetric: Callable[..., tuple[Vectors, Vectors]]
) -> tuple[Vectors, Vectors]:
    """Through the D×D matrix C = L⁻¹S_B L⁻ᵀ, v = L⁻ᵀu; `symmetric` says with which of its eigenvectors."""
    (trsm,) = get_blas_funcs(("trsm",), (L,))
    (sygst,) = get_lapack_funcs(("sygst",), (L,))
    C, _ = sygst(scatter.between(), L, lower=True, overwrite_a=1)
    eigenvalues, U = symmetric(C, kept)
    return eigenvalues, trsm(1, L, U, lower=True, trans_a=True, overwrite_b=1)


def _symmetric(C: Vectors, kept: ChooseN) -> tuple[Vectors, Vectors]:
    # A tridiagonal problem of one number has no off-diagonal, which LAPACK's `stevd` cannot be given.
    return _plain(C, kept) if len(C) == 1 else _tridiagonal(C, kept)


def _plain(C: Vectors, kept: ChooseN) -> tuple[Vectors, Vectors]:
    """All eigenvalues (descending) and the kept eigenvectors of the symmetric C (lower triangle), at once."""
    values, vectors = eigh(C, lower=True, overwrite_a=True, check_finite=False, driver="evd")
    values = values[::-1]
    return values, np.asfortranarray(vectors[:, ::-1][:, : kept(values)])


def _tridiagonal(C: Vectors, kept: ChooseN) -> tuple[Vectors, Vectors]:
    """The same in stages: reduce C to tridiagonal form, solve that, and bring back only the kept vectors.

    Divide and conquer solves the tridiagonal problem in a sixth of what bringing back costs, all vectors included, and
    in a quarter of what only the kept ones take with LAPACK's `stemr`. The reduction reads the upper triangle, by which
    OpenBLAS multiplies an eighth faster than by the lower one.
    """
    size = len(C)
    for start in range(0, size, AT_ONCE):
        stop = start + AT_ONCE
        C[start:stop, start:] = C[start:, start:stop].T
    sytrd, sytrd_lwork = get_lapack_funcs(("sytrd", "sytrd_lwork"), (C,))
    lwork = int(sytrd_lwork(size, lower=False)[0])
    reflectors, d, e, tau, _ = sytrd(C, lower=False, lwork=lwork, overwrite_a=1)
    values, vectors = _divide_and_conquer(d, e)
    values = values[::-1].astype(np.float64)
    vectors = np.asfortranarray(vectors[:, ::-1][:, : kept(values)], dtype=C.dtype)
    _bring_back(reflectors[::-1, ::-1], tau[::-1], vectors[::-1])  # in reverse, those of a lower triangle
    return values, vectors


_REDUCED: dict[str, Callable[[Vectors, Scatter, ChooseN], tuple[Vectors, Vectors]]] = {
    "gram": _gram,
    "direct": partial(_full, symmetric=_plain),  # all eigenvectors
    "staged": partial(_full, symmetric=_symmetric),  # only those that are kept
}


def _bring_back(reflectors: Vectors, tau: Vectors, vectors: Vectors) -> None:
    """Multiply by the Q of `sytrd` (lower), in place; at D = 4096 in three quarters of the time of LAPACK's `ormtr`.

    Some reflectors in a row are one matrix I − V T Vᵀ, where T⁻¹ is the upper triangle of VᵀV with 1/τ on its
    diagonal (Schreiber and Van Loan's form), so that nearly all is large products. Row 0 is left alone.
    """
    (trsm,) = get_blas_funcs(("trsm",), (vectors,))
    below, parts, wide = vectors[1:], [], WIDE if len(tau) > SMALL else NARROW
    for start in reversed(range(0, len(tau), wide)):
        some = tau[start : start + wide]
        V = np.tril(reflectors[1 + start :, start : start + len(some)], -1)
        np.fill_diagonal(V, 1)
        V, some = V[:, some != 0], some[some != 0]  # the others are the identity
        T_inverse = np.triu(V.T @ V)
        np.fill_diagonal(T_inverse, 1 / some)
        if len(some):
            parts.append((start, V, T_inverse))
    products = np.empty(min(AT_ONCE, below.shape[1]) * len(below), below.dtype)
    for columns in blocks(below.shape[1], 1, AT_ONCE):
        rows = np.ascontiguousarray(below[:, columns].T)
        for start, V, T_inverse in parts:
            shares = trsm(1, T_inverse, (rows[:, start:] @ V).T, lower=False, overwrite_b=1).T
            product = products[: len(rows) * len(V)].reshape(len(rows), len(V))
            rows[:, start:] -= np.matmul(shares, V.T, out=product)
        below[:, columns] = rows.T


def _divide_and_conquer(d: Vectors, e: Vectors) -> tuple[Vectors, Vectors]:
    """All eigenvalues (ascending) and eigenvectors of a tridiagonal matrix; in float64 where float32 fails."""
    for dtype in (d.dtype, np.float64):
        (stevd,) = get_lapack_funcs(("stevd",), dtype=dtype)
        values, vectors, info = stevd(d.astype(dtype), e.astype(dtype))
        if info == 0 and np.isfinite(values).all():
            return values, vectors
    raise LinAlgError("the tridiagonal eigenproblem did not converge")


def _clip_rounding(eigenvalues: Vectors, dtype: np.dtype[np.floating]) -> Vectors:
    """Set eigenvalues that are zero up to rounding to zero, so that their vectors are not kept."""
    if len(eigenvalues) == 0:
        return eigenvalues
    floor = max(float(eigenvalues[0]), 0.0) * len(eigenvalues) * float(np.finfo(dtype).eps)
    return np.where(eigenvalues > floor, eigenvalues, 0)
