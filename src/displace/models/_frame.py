"""Cropping and masking of captions, bonnets and the like."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.errors import ImageError, InputError
from displace.files.reading import PathLike
from displace.images import content_hash, open_image

Crop = Sequence[float] | str
Pixels = NDArray[np.uint8]

GREY = np.array([124, 116, 104], np.uint8)
"""Mean colour of ImageNet, which the networks' normalisation turns into about zero."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Edges to crop, in the order of CSS (top, right, bottom, left), and a mask."""

    crop: tuple[float, ...] = (0, 0, 0, 0)
    keep: NDArray[np.bool_] | None = None
    mask_sha256: str | None = None

    @classmethod
    def read(cls, crop: Crop | None, mask: PathLike | None) -> Frame:
        """Check `crop` and read the image `mask`."""
        edges = _edges(crop) if crop is not None else (0, 0, 0, 0)
        if mask is None:
            return cls(edges)
        path = Path(mask)
        try:
            digest = content_hash(path)
            with open_image(path) as image:
                keep = np.asarray(image.convert("L")) >= 128
        except (OSError, ImageError) as error:
            raise InputError(f"mask={os.fspath(mask)!r} cannot be read as an image: {error}") from error
        if not keep.any():
            raise InputError(
                f"mask={os.fspath(mask)!r} is dark everywhere and would leave nothing; paint what counts white"
            )
        return cls(edges, keep, digest)

    def apply(self, image: Pixels) -> Pixels:
        """Paint masked pixels grey, then crop the edges; the argument is not changed."""
        if self.keep is not None:
            image = np.where(_fitted(self.keep, image.shape[:2])[..., None], image, GREY)
        if not any(self.crop):
            return image
        height, width = image.shape[:2]
        top, right, bottom, left = (
            _pixels(edge, side) for edge, side in zip(self.crop, (height, width, height, width), strict=True)
        )
        if top + bottom >= height or left + right >= width:
            edges = ",".join(f"{edge:g}" for edge in self.crop)
            raise ImageError(
                f"crop={edges} (top, right, bottom, left) leaves nothing of an image of {width}×{height}"
            )
        return image[top : height - bottom, left : width - right]

    def record(self) -> dict[str, Any]:
        """Return crop and mask as JSON-able values."""
        return {"crop": list(self.crop) if any(self.crop) else None, "mask_sha256": self.mask_sha256}


def _fitted(keep: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Bring a mask to an image's size, which must have the mask's proportions."""
    if keep.shape == shape:
        return keep
    (height, width), (rows, columns) = shape, keep.shape
    # One pixel of rounding on either side is allowed.
    if abs(columns * height - rows * width) > max(height, width, rows, columns):
        raise ImageError(
            f"the mask of {columns}×{rows} does not fit an image of {width}×{height}: "
            "their proportions differ; extract recordings of different cameras apart"
        )
    resized = cv2.resize(keep.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST)
    return np.asarray(resized, bool)


def _edges(crop: Crop) -> tuple[float, ...]:
    """Check the four edges."""
    rule = (
        "crop takes four numbers: top, right, bottom, left, in pixels or, below 1, as a fraction of the side"
    )
    try:
        parts = crop.split(",") if isinstance(crop, str) else crop
        edges = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        raise InputError(f"{rule}; got {crop!r}, for example crop=(0, 0, 0.1, 0)") from None
    if len(edges) != 4 or not all(0 <= edge < np.inf for edge in edges):
        raise InputError(f"{rule}, none below zero; got {crop!r}")
    if any(edge >= 1 and edge % 1 for edge in edges):
        raise InputError(f"{rule}; pixels come whole; got {crop!r}")
    top, right, bottom, left = (edge if edge < 1 else 0.0 for edge in edges)
    if top + bottom >= 1 or left + right >= 1:
        raise InputError(f"crop={crop!r} leaves nothing: opposite fractions must add up to less than 1")
    return edges


def _pixels(edge: float, side: int) -> int:
    """Return an edge in pixels."""
    return round(edge * side) if edge < 1 else int(edge)
