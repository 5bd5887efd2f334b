"""Published ways from pixels to a network's input, reproduced to the last bit.

Each is a frozen record, so that it can enter a fingerprint, and is called with an RGB image, uint8 (H, W, 3);
it returns float32 (3, H', W').
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from displace.errors import InputError

Pixels = NDArray[np.uint8]
Planes = NDArray[np.float32]
Size = int | tuple[int, int] | None
"""None: as it is; a number: the shorter side; a pair: (height, width)."""

MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
STD = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
"""ImageNet's mean and standard deviation for each channel."""

LARGEST_SIDE = 16384


class Preprocessing(Protocol):
    """A way from pixels to a network's input."""

    def __call__(self, image: Pixels) -> Planes:
        """Turn an RGB image into a network's input."""


@dataclass(frozen=True)
class TensorResize:
    """Normalise first, then resize the floats bilinearly with antialiasing (VPR-methods-evaluation)."""

    size: Size = None
    multiple: int = 1
    """Both sides are brought to the nearest multiple of this in a second step."""

    def __call__(self, image: Pixels) -> Planes:
        """Turn an RGB image into a network's input."""
        planes = normalized(image)
        planes = _interpolate(planes, target_size(planes.shape[1:], self.size))
        height, width = (max(1, round(side / self.multiple)) * self.multiple for side in planes.shape[1:])
        return _interpolate(planes, (height, width))


@dataclass(frozen=True)
class PillowResize:
    """Resize the bytes with Pillow, then normalise (the loaders of several authors)."""

    size: tuple[int, int]
    filter: str = "BILINEAR"

    def __call__(self, image: Pixels) -> Planes:
        """Turn an RGB image into a network's input."""
        height, width = self.size
        resized = Pillow.fromarray(image).resize((width, height), Pillow.Resampling[self.filter])
        return normalized(np.asarray(resized))


@dataclass(frozen=True)
class AreaLimit:
    """Shrink the longer side to a limit by area averaging; values in [0, 1], not normalised (hloc)."""

    longest: int = 1024

    def __call__(self, image: Pixels) -> Planes:
        """Turn an RGB image into a network's input."""
        floats = image.astype(np.float32)
        height, width = image.shape[:2]
        if max(height, width) > self.longest:
            scale = self.longest / max(height, width)
            size = (max(1, round(width * scale)), max(1, round(height * scale)))
            floats = np.asarray(cv2.resize(floats, size, interpolation=cv2.INTER_AREA), np.float32)
        return np.ascontiguousarray(floats.transpose(2, 0, 1)) / np.float32(255)


def record(preprocessing: Any) -> dict[str, Any]:
    """Return a pre-processing as JSON-able values."""
    values = dataclasses.asdict(preprocessing)
    return {
        "kind": type(preprocessing).__name__,
        **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()},
    }


def normalized(image: Pixels) -> Planes:
    """Scale to [0, 1] and normalise with ImageNet's mean and deviation, (H, W, 3) to (3, H, W)."""
    planes = np.ascontiguousarray(image.transpose(2, 0, 1)).astype(np.float32)
    planes /= np.float32(255)
    planes -= MEAN
    planes /= STD
    return planes


def target_size(shape: tuple[int, ...], size: Size) -> tuple[int, int]:
    """Height and width that an image of `shape` gets.

    >>> target_size((480, 640), 512)
    (512, 682)
    """
    height, width = shape
    if size is None:
        return height, width
    if isinstance(size, tuple):
        return size
    # The longer side is cut, not rounded, as in the published loaders.
    longer = int(size * max(height, width) / min(height, width))
    return (size, longer) if height <= width else (longer, size)


def parse_size(given: Any) -> Size:
    """Read an image size: "native", 512, "512" (shorter side), (480, 640) (height, width) or "640x480" (W×H).

    >>> parse_size("640x480")
    (480, 640)
    """
    if isinstance(given, str) and given == "native":
        return None
    try:
        if isinstance(given, str):
            sides = [int(side) for side in given.lower().replace("×", "x").split("x")][::-1]
        else:
            sides = [int(side) for side in np.atleast_1d(given)]
    except (TypeError, ValueError):
        sides = []
    if len(sides) not in (1, 2) or not all(1 <= side <= LARGEST_SIDE for side in sides):
        raise InputError(
            f"image_size={given!r} must be 'native', a shorter side such as 512, or WIDTHxHEIGHT such as '640x480', "
            f"each from 1 to {LARGEST_SIDE}"
        )
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def _interpolate(planes: Planes, size: tuple[int, int]) -> Planes:
    """Resize (3, H, W) bilinearly with antialiasing."""
    if planes.shape[1:] == size:
        return planes
    import torch
    from torch.nn import functional

    # Without inference mode the tensor would carry gradient bookkeeping between threads.
    with torch.inference_mode():
        batch = torch.from_numpy(planes)[None]
        resized = functional.interpolate(
            batch, size=size, mode="bilinear", align_corners=False, antialias=True
        )
    array: Planes = resized[0].numpy()
    return array
