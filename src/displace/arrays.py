"""Checks on arrays, unit vectors, log-odds, and the best k of many scores in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.errors import InputError

Vectors = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
Real = TypeVar("Real", bound=np.floating[Any])

BLOCK_BYTES = 64 * 2**20
"""Scores held at one time while ranking (float32 bytes)."""

SMALLEST, LARGEST = 1e-30, 1e30
"""Range of the largest absolute value of references."""
LARGEST_KEPT = 1e15
"""The same where a map may be made of them: it keeps squared distances in float32."""
LONGEST = 1.05
"""Length of a row from which on it is no unit vector; rounding to eight bits stays below."""

FEW = 10
"""Up to this k, finding the best score k times is faster than one partition (2.5 times at k = 5)."""


def as_vectors(values: ArrayLike, name: str = "vectors") -> Vectors:
    """Check that `values` is a finite (m, D) array of numbers and return it as float32 or float64.

    float64 stays float64; float16, float32 and integers become float32.
    """
    check_not_masked(values, name)
    array = as_array(values, name)
    if array.ndim != 2:
        raise InputError(f"{name} must have shape (m, D); got shape {array.shape}")
    if array.shape[1] == 0:
        raise InputError(f"{name} have no dimensions; got shape {array.shape}")
    if array.dtype.kind not in "fiub":
        way_out = (
            "leave out columns that are none, and make nullable ones plain with table.to_numpy(np.float32)"
            if hasattr(values, "columns")
            else "convert them with np.asarray(values, np.float32)"
        )
        raise InputError(f"{name} must be numbers; got dtype {array.dtype}: {way_out}")
    array = array.astype(np.float64 if array.dtype == np.float64 else np.float32, copy=False)
    check_finite(array, name)
    return array


def as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Values as an array; an error names them if numpy cannot make one, such as from rows of unequal length."""
    if isinstance(values, Iterator):
        raise InputError(
            f"{name} must be an array or a list; got a {type(values).__name__}: make a list of it"
        )
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        # The last two also of tensors that are not on the CPU, or have a gradient.
        raise InputError(
            f"{name} cannot be read as an array ({error}): rows must be of equal length; a torch tensor is given as "
            "tensor.detach().cpu().float().numpy()"
        ) from None


def check_not_masked(values: ArrayLike, name: str) -> None:
    """Refuse masked entries: the mask would be lost, and the values under it used."""
    if np.ma.is_masked(values):
        raise InputError(
            f"{name} has masked entries: drop those rows, or fill them, such as with values.filled()"
        )


def check_finite(array: Vectors, name: str = "vectors") -> None:
    """Raise an error that names the first rows with NaN or infinity, if there are any."""
    for rows in blocks(len(array), row_bytes=array.itemsize * array.shape[1]):
        finite = np.isfinite(array[rows])
        if not finite.all():
            bad = ~finite.all(axis=1)
            first = np.flatnonzero(bad)[:5] + rows.start
            listed = ", ".join(map(str, first))
            raise InputError(
                f"{name} contain NaN or infinity, first in row {listed}; drop or repair those rows"
            )


def check_size(array: Vectors, name: str = "vectors", limit: float = LARGEST) -> None:
    """Refuse numbers so close to the limits of float32 that their sums overflow or vanish."""
    largest = max(float(array.max(initial=0)), -float(array.min(initial=0)))
    if largest and not SMALLEST <= largest <= limit:
        raise InputError(
            f"{name} have numbers up to {largest:.1e}, and {SMALLEST:g} to {limit:g} is possible: scale them, "
            "such as to unit length"
        )


def check_count(value: Any, name: str) -> None:
    """Refuse a parameter that is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name}={value!r} must be a whole number of at least 1")


def check_one_of(value: Any, known: Sequence[str], name: str) -> None:
    """Refuse a value that is not one of the known ones."""
    if value not in known:
        raise InputError(f"{name}={value!r} must be one of {', '.join(known)}")


def as_labels(values: ArrayLike, n: int, name: str) -> NDArray[Any]:
    """Check that `values` is one label for each of `n` rows."""
    check_not_masked(values, name)
    array = as_array(values, name)
    if array.shape != (n,):
        raise InputError(f"{name} must have shape ({n},), one for each vector; got shape {array.shape}")
    return array


def is_named(label: Any) -> bool:
    """Whether a label names something: None does not, nor do NaN and pandas' NA, which do not equal themselves."""
    same = label == label
    return label is not None and isinstance(same, bool | np.bool_) and bool(same)


def plain(value: Any) -> Any:
    """A value that JSON can hold: numbers and arrays of numpy, also within lists and dicts, are those of Python.

    >>> plain({"tau": np.float32(0.5), "n_rows": np.int64(2), "sizes": [np.bool_(True), "all"]})
    {'tau': 0.5, 'n_rows': 2, 'sizes': [True, 'all']}
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [plain(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def l2_normalize(vectors: Vectors) -> Vectors:
    """Rows scaled to unit length; a row of zeros stays zero.

    >>> l2_normalize(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    squares = np.einsum("...d,...d->...", vectors, vectors)
    smallest = 1e-290 if squares.dtype == np.float64 else 1e-30
    if not (squares.min(initial=1) > smallest and squares.max(initial=1) < np.inf):
        # Squares beyond the type's range: scale by powers of two, which changes no digit.
        vectors = np.ldexp(vectors, -np.frexp(np.abs(vectors).max(axis=-1, keepdims=True))[1])
        squares = np.einsum("...d,...d->...", vectors, vectors)
        squares = np.where(squares > 0, squares, 1)
    unit: Vectors = vectors / np.sqrt(squares)[..., None]
    return unit


def sigmoid(x: NDArray[Real]) -> NDArray[Real]:
    """1/(1 + e⁻ˣ), without overflow."""
    result: NDArray[Real] = 1 / (1 + np.exp(-np.clip(x, -50, 50)))
    return result


def sigmoid_of(x: float) -> float:
    """`sigmoid` of one number, in plain floats: it is asked at every frame of a drive."""
    return 1 / (1 + exp(-min(max(x, -50.0), 50.0)))


def log_odds(probability: ArrayLike, least: float) -> NDArray[np.float64]:
    """Inverse of `sigmoid`, of probabilities that are first clipped to `least` … 1 − `least`.

    >>> log_odds([0.5, 0.0, 1.0], 0.01).round(2).tolist()
    [0.0, -4.6, 4.6]
    """
    p = np.clip(np.asarray(probability, np.float64), least, 1 - least)
    return np.log(p / (1 - p))


def shows_something(vectors: Vectors) -> NDArray[np.bool_]:
    """Which descriptors are of pictures with something to see: that of a black or covered one is zero."""
    return np.asarray(vectors.any(axis=1))


def blocks(n: int, row_bytes: int, budget: int = BLOCK_BYTES) -> Iterator[slice]:
    """Slices that cover ``range(n)``, each of about `budget` bytes at `row_bytes` a row."""
    step = max(1, budget // max(1, row_bytes))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def top_k(scores: Vectors, k: int) -> Indices:
    """Columns of the `k` highest scores of each row, best first; equal scores keep column order.

    >>> top_k(np.array([[0.1, 0.9, 0.5, 0.9]]), 3)
    array([[1, 3, 2]])
    """
    n = scores.shape[1]
    k = min(k, n)
    if k == 1:
        first: Indices = scores.argmax(axis=1)[:, None]
        return first
    if k >= n:
        return np.argsort(-scores, axis=1, kind="stable")
    best = np.empty((len(scores), k), np.intp)
    for row, score in enumerate(scores):
        few = _few_best(score, k) if k <= FEW else []
        best[row] = few or _many_best(score, k)
    return best


def _few_best(score: Vectors, k: int) -> list[int]:
    """Columns of the `k` highest scores, one after the other; empty if one of them is minus infinity."""
    rest, best = score.copy(), []
    for _ in range(k):
        column = int(rest.argmax())
        if rest[column] == -np.inf:
            return []
        best.append(column)
        rest[column] = -np.inf
    return best


def _many_best(score: Vectors, k: int) -> list[int]:
    """Columns of the `k` highest scores, by a partition."""
    # At least k columns reach the k-th best score; a stable sort keeps equal ones in order.
    columns = np.flatnonzero(score >= np.partition(score, len(score) - k)[len(score) - k])
    best: list[int] = columns[np.argsort(-score[columns], kind="stable")[:k]].tolist()
    return best


def ranked(
    n_queries: int, n_places: int, k: int, scores_of: Callable[[slice], Vectors], n_layers: int = 1
) -> tuple[Indices, Vectors]:
    """The k best columns of each query and their scores, both (n_queries, k), best first.

    Ranked in blocks of queries, so that the whole score matrix never exists: `scores_of` takes a slice of queries and
    returns their scores, (b, n_places), holding `n_layers` such arrays at one time.
    """
    k = min(k, n_places)
    parts = []
    for rows in blocks(n_queries, row_bytes=4 * n_places * n_layers):
        scores = scores_of(rows)
        columns = top_k(scores, k)
        parts.append((columns, scores[np.arange(len(scores))[:, None], columns]))
        del scores  # before the next block's are made
    if not parts:
        return np.empty((0, k), np.intp), np.empty((0, k), np.float32)
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([c for c, _ in parts]), np.concatenate([s for _, s in parts])


def nearest_rows(queries: Vectors, rows: Vectors) -> Indices:
    """Row with the highest inner product for each query, shape (q,)."""
    best, _ = ranked(len(queries), len(rows), 1, lambda some: queries[some] @ rows.T)
    return best[:, 0]
