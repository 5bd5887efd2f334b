"""The paper's equations written out, in float64 and with loops: what every solver route is compared with."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh


def scatter_matrices(X, y):
    """S_W and S_B, equations (3) and (4); unequal K_p weighted as in the documentation of `Scatter`."""
    X, y = np.asarray(X, np.float64), np.asarray(y)
    places = np.unique(y)
    means = np.array([X[y == p].mean(axis=0) for p in places])
    S_W = np.zeros((X.shape[1], X.shape[1]))
    for p, mean in zip(places, means, strict=True):
        for r in X[y == p]:
            S_W += np.outer(r - mean, r - mean)
    centre = means.mean(axis=0)
    S_B = np.zeros_like(S_W)
    for mean in means:
        S_B += np.outer(mean - centre, mean - centre)
    return S_W / len(X), S_B / len(places), centre


def displace(X, y, Q, tau=0.95, ridge=0.0, center=False):
    """Scores (q, N), n, and the share of the eigenvalues that the first n reach."""
    X, y, Q = np.asarray(X, np.float64), np.asarray(y), np.asarray(Q, np.float64)
    S_W, S_B, centre = scatter_matrices(X, y)
    D = X.shape[1]
    values, vectors = eigh(S_B, S_W + ridge * np.trace(S_W) / D * np.eye(D))
    order = np.argsort(values)[::-1][: len(np.unique(y)) - 1]
    values, vectors = values[order], vectors[:, order]
    total = sum(value for value in values if value > 0)
    n, reached = 0, 0.0
    while reached < tau * total * (1 - 1e-12):
        reached += values[n]
        n += 1
    P = vectors[:, :n]
    shift = centre if center else np.zeros(D)
    scores = np.empty((len(Q), len(np.unique(y))))
    for column, p in enumerate(np.unique(y)):
        h = sum((r - shift) @ P for r in X[y == p])
        h /= np.linalg.norm(h)
        for row, q in enumerate(Q):
            z = (q - shift) @ P
            scores[row, column] = h @ z / np.linalg.norm(z)
    return scores, n, np.cumsum(values) / total


def cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def distances(X, y, traversals, q):
    """{traversal: {place: cosine distance}} of one query, with missing references left out."""
    result: dict = {}
    for x, p, t in zip(X, y, traversals, strict=True):
        result.setdefault(t, {})[p] = 1 - cosine(np.asarray(x, np.float64), np.asarray(q, np.float64))
    return result
