"""What a broken or misplaced camera makes of a picture: none of it is in any map."""

from __future__ import annotations

import cv2
import numpy as np


def upside_down(picture: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """The camera hangs from the ceiling."""
    return np.ascontiguousarray(picture[::-1, ::-1])


def mirrored(picture: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """The driver mirrors, as those of cameras that face the user do."""
    return np.ascontiguousarray(picture[:, ::-1])


def covered(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A hand before the lens: black, with the sensor's noise."""
    return np.clip(rng.normal(6, 4, picture.shape), 0, 255).astype(np.uint8)


def blinded(picture: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Exposed for far too long: almost white."""
    return np.clip(2.5 * picture.astype(np.float32) + 150, 0, 255).astype(np.uint8)


def out_of_focus(picture: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Blurred over a quarter of the width."""
    blurred: np.ndarray = cv2.GaussianBlur(
        picture, (0, 0), picture.shape[1] / 4, borderType=cv2.BORDER_REFLECT
    )
    return blurred


KINDS = (upside_down, mirrored, covered, blinded, out_of_focus)
