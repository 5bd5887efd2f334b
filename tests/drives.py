"""Generated drives along a route with known truth."""

from __future__ import annotations

import numpy as np


def make_route(
    n_places: int, likeness: float, seed: int, condition: int = 1, shift: float = 0.0, dim: int = 32
) -> tuple[np.ndarray, np.ndarray]:
    """Descriptors of a route's places, and of the same places in another condition; neighbours resemble each other.

    Parameters
    ----------
    likeness : float
        How much of a place stays the same between conditions, 0 to 1.
    shift : float
        What the second condition adds to all of its frames.
    """
    rng = np.random.default_rng(seed)
    base = _smooth(rng.standard_normal((n_places, dim)))
    other = np.random.default_rng([seed, condition])
    noise = _smooth(other.standard_normal((n_places, dim)))
    added = shift * other.standard_normal(dim)
    changed = likeness * base + (1 - likeness) * noise + added
    return _unit(base), _unit(changed)


def make_mixed_scenery(seed: int, n_places: int = 400, dim: int = 48) -> tuple[np.ndarray, np.ndarray]:
    """Descriptors of a route in two conditions: every second 80 places lie on an open plain, where all look alike."""
    rng, other = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    base, noise = (_smooth(source.standard_normal((n_places, dim))) for source in (rng, other))
    changed, plain = 0.55 * base + 0.45 * noise, rng.standard_normal(dim)
    on_plain = (np.arange(n_places) // 80 % 2 == 1)[:, None]
    first, second = (_unit(np.where(on_plain, plain + 0.8 * seen, seen)) for seen in (base, changed))
    return first, second


def drive_along(n_places: int, rng: np.random.Generator, stops: int = 2) -> np.ndarray:
    """Places at which frames were taken: changing speed (0.5 to 2 places a frame) and stops."""
    at, speed, frames = 0.0, 0.0, []
    halts = sorted(rng.uniform(0.2, 0.8, stops) * n_places)
    while at <= n_places - 1:
        frames.append(round(at))
        speed = np.clip(0.95 * speed + rng.normal(0, 0.2), -0.69, 0.69)
        at += float(np.exp(speed))
        if halts and at > halts[0]:
            halts.pop(0)
            frames += [min(round(at), n_places - 1)] * int(rng.integers(5, 15))
    return np.array(frames)


def _smooth(values: np.ndarray) -> np.ndarray:
    """Rows mixed with their neighbours, at unit spread."""
    padded = np.pad(values, ((1, 1), (0, 0)), mode="edge")
    mixed = padded[:-2] * 0.5 + padded[1:-1] + padded[2:] * 0.5
    return mixed / mixed.std()


def _unit(values: np.ndarray) -> np.ndarray:
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
