"""Histograms of oriented gradients (Dalal and Triggs, CVPR 2005): no network, no weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.arrays import l2_normalize
from displace.errors import InputError
from displace.models.base import DescriptorModel, Image, shows_nothing

WIDTH, HEIGHT = 144, 108
ORIENTATIONS, CELL, BLOCK = 9, 12, 2


class Hog(DescriptorModel):
    """Gradient histograms of the grey image at 144×108; an image that shows nothing has the zero descriptor.

    Histograms are normalised block by block, however faint the gradients are: the noise of a covered camera would be
    edges in all directions, which resemble every place a little.
    """

    name = "hog"
    licence = "BSD-3-Clause (scikit-image)"
    paper = "https://doi.org/10.1109/CVPR.2005.177"
    prepare_is_heavy: ClassVar[bool] = True
    dim = 3168
    grid = (
        HEIGHT // CELL - BLOCK + 1,
        WIDTH // CELL - BLOCK + 1,
        BLOCK * BLOCK * ORIENTATIONS,
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.weights_file is not None:
            raise InputError(f"weights={str(self.weights_file)!r}: hog has no weights; leave it out")
        if self.image_size is not None:
            raise InputError(f"image_size={self.image_size!r}: hog takes {WIDTH}x{HEIGHT} only; leave it out")
        if self.device not in ("auto", "cpu"):
            raise InputError(f"device={self.device!r}: hog runs on the processor; pass 'cpu' or leave it out")

    def prepare(self, image: Image) -> NDArray[np.float32]:
        """Compute the whole descriptor of one RGB image, (H, W, 3) to (3168,)."""
        from skimage.feature import hog

        grey = cv2.cvtColor(np.ascontiguousarray(self.framed(image)), cv2.COLOR_RGB2GRAY)
        if shows_nothing(grey):
            return np.zeros(self.dim, np.float32)
        small = cv2.resize(grey, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
        histograms = hog(small, ORIENTATIONS, (CELL, CELL), (BLOCK, BLOCK), block_norm="L2-Hys")
        vector: NDArray[np.float32] = l2_normalize(histograms[None])[0].astype(np.float32)
        return vector

    def describe(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the prepared descriptors, (b, 3168)."""
        if batch.ndim != 2 or batch.shape[1] != self.dim:
            raise InputError(f"batch must have shape (b, {self.dim}); got {batch.shape}")
        return np.asarray(batch, np.float32)

    def settings(self) -> Mapping[str, Any]:
        """Describe the pre-processing, as JSON-able values."""
        return {"size": [HEIGHT, WIDTH], "orientations": ORIENTATIONS, "cell": CELL, "block": BLOCK}
