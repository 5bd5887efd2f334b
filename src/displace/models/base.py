"""What a descriptor model is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]


class DescriptorModel(ABC):
    """Turns images into descriptors: `prepare` one image at a time, `describe` a batch of equal shape."""

    name: ClassVar[str]
    licence: ClassVar[str]
    paper: ClassVar[str]
    prepare_is_heavy: ClassVar[bool] = False
    """Whether `prepare` does most of the work in Python, so that it gains from several processes."""

    dim: int

    @abstractmethod
    def prepare(self, image: Image) -> NDArray[np.float32]:
        """Pre-process one decoded RGB image (H, W, 3) into what `describe` takes."""

    @abstractmethod
    def describe(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Describe prepared images of one shape, (b, ...) to unit vectors (b, dim)."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, Any]:
        """What makes two descriptors comparable: model, variant, weights' SHA-256, preprocessing, version."""
