"""What a map is asked: images or descriptors, and whether its own model made these."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from displace.errors import ModelMismatchError
from displace.models import differences, model_name


def as_images(queries: Any) -> list[Any] | None:
    """Images that were given, as a list; None where these are descriptors."""
    if isinstance(queries, str | os.PathLike | bytes):
        return [queries]
    if isinstance(queries, np.ndarray):
        if queries.dtype == np.uint8 and queries.ndim in (3, 4):
            return [queries] if queries.ndim == 3 else list(queries)
        return None
    if isinstance(queries, Sequence) and all(map(is_image, queries)):
        return [Path(query) if isinstance(query, str) else query for query in queries]
    return None


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
