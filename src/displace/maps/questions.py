"""Input of a map: tells images from descriptors, and checks that the map's model made the descriptors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from displace.errors import InputError, ModelMismatchError
from displace.models import differences, model_name

PIXELS = "pixels: uint8, shape (height, width, 3), RGB"


def as_images(queries: Any) -> list[Any] | None:
    """Queries as a list of images; None where they are descriptors."""
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
            f"images are paths, encoded files, or {PIXELS}; descriptors are one array (q, D). Got a list with {what}"
        )
    return None


def _pixels(query: Any) -> Any:
    """Pillow images as pixels; anything else unchanged."""
    if _of_pillow(query):
        from displace.images import pixels_of  # brings Pillow, which maps do without

        return pixels_of(query)
    return np.asarray(query) if hasattr(query, "__array_interface__") else query


def _of_pillow(query: Any) -> bool:
    """Whether a query is an image that Pillow opened or made, told without importing it."""
    return hasattr(query, "getexif")


def check_no_pixels(queries: Any, dim: int) -> None:
    """Refuse what cannot be descriptors (q, `dim`) and seems to be a picture, grey or in floating point."""
    if not isinstance(queries, np.ndarray) or queries.shape[1:] == (dim,):
        return
    if queries.ndim in (3, 4) or (queries.ndim == 2 and queries.dtype == np.uint8):
        raise InputError(
            f"queries of {queries.dtype}, shape {queries.shape}, are neither descriptors (q, {dim}) nor a picture: "
            f"give {PIXELS}; of a grey picture, np.stack([grey] * 3, axis=-1)"
        )


def is_image(query: Any) -> bool:
    """Whether a query is one image: a path, an encoded file, pixels or an image of Pillow."""
    pixels = isinstance(query, np.ndarray) and query.dtype == np.uint8 and query.ndim == 3
    return pixels or isinstance(query, str | os.PathLike | bytes) or _of_pillow(query)


def check_same_model(model: Mapping[str, Any] | None, fingerprint: Mapping[str, Any] | None) -> None:
    """Raise ModelMismatchError where `fingerprint` is not that of a map's `model`; nothing where one is unknown."""
    if model is None or fingerprint is None:
        return
    parts = [
        f"{key}: {given!r}, the map has {own!r}"
        for key, (given, own) in differences(fingerprint, model).items()
    ]
    if parts:
        raise ModelMismatchError(
            f"the images given were described by {model_name(fingerprint)}, the map's references by "
            f"{model_name(model)}; they differ in\n  " + "\n  ".join(parts) + _described_alike(model)
        )


def _described_alike(model: Mapping[str, Any]) -> str:
    """How to describe queries as the map's references were; empty for imported ones, made by another program."""
    if model.get("imported"):
        return ""
    return (
        "\nDescribe the images with the map's model and settings, into another store: displace extract MANIFEST "
        f"-o STORE -m {model_name(model)}"
    )
