"""What a map is asked: images or descriptors, and whether its own model made these."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from displace.errors import InputError, ModelMismatchError
from displace.models import differences, model_name


def as_images(queries: Any) -> list[Any] | None:
    """Images that were given, as a list; None where these are descriptors."""
    if isinstance(queries, str | os.PathLike | bytes):
        return [queries]
    queries = _pixels(queries)
    if isinstance(queries, np.ndarray):
        if queries.dtype == np.uint8 and queries.ndim in (3, 4):
            return [queries] if queries.ndim == 3 else list(queries)
        return None
    if not isinstance(queries, Sequence):
        return None
    given = [_pixels(query) for query in queries]
    if all(map(is_image, given)):
        return [Path(query) if isinstance(query, str) else query for query in given]
    if any(np.ndim(query) > 1 for query in given if isinstance(query, np.ndarray)):
        odd = next(query for query in given if not is_image(query))
        what = f"{odd.dtype}, shape {odd.shape}" if isinstance(odd, np.ndarray) else type(odd).__name__
        raise InputError(
            "images are paths, encoded files, or pixels: uint8, shape (height, width, 3), RGB; descriptors are one "
            f"array (q, D). Got a list with {what}"
        )
    return None


def _pixels(query: Any) -> Any:
    """Images of Pillow as pixels; all else as it is."""
    return np.asarray(query) if hasattr(query, "__array_interface__") else query


def is_image(query: Any) -> bool:
    """Whether this is one image: a path, an encoded file or pixels."""
    pixels = isinstance(query, np.ndarray) and query.dtype == np.uint8 and query.ndim == 3
    return pixels or isinstance(query, str | os.PathLike | bytes)


def check_same_model(model: Mapping[str, Any] | None, fingerprint: Mapping[str, Any] | None) -> None:
    """Raise an error that names both where `fingerprint` is not a map's `model`; where one is not known, none."""
    if model is None or fingerprint is None:
        return
    parts = [
        f"{key}: {given!r}, the map has {own!r}"
        for key, (given, own) in differences(fingerprint, model).items()
    ]
    if parts:
        raise ModelMismatchError(
            f"the queries were described by {model_name(fingerprint)}, the map's references by "
            f"{model_name(model)}; they differ in\n  " + "\n  ".join(parts) + _described_alike(model)
        )


def _described_alike(model: Mapping[str, Any]) -> str:
    """How to describe queries as the map's references were; only the other program can repeat imported ones."""
    if model.get("imported"):
        return ""
    return (
        "\nDescribe the images with the map's model and settings, into another store: displace extract MANIFEST "
        f"-o STORE -m {model_name(model)}"
    )
