"""The interface of descriptor models."""

from __future__ import annotations

import importlib.util
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.cell_layout import CellLayout
from displace.errors import InputError, UnknownNameError
from displace.files.reading import PathLike
from displace.models._frame import Crop, Frame
from displace.models._weights import Progress, Weights, cached_path
from displace.registry import check_known, missing_extra

Image = NDArray[np.uint8]
Size = int | tuple[int, int] | str

FAINT = 2.0
"""Standard deviation of the grey levels, 0 to 255, below which an image shows nothing but noise."""
_LOOKED_AT = (144, 108)
"""Width and height to which grey images are averaged first: noise of single pixels counts for little."""


@dataclass(frozen=True)
class Variant:
    """One of the published configurations of a model."""

    dim: int
    weights: Weights | None = None
    backbone: str = ""
    """Where variants differ in it."""


class DescriptorModel(ABC):
    """Turns images into descriptors: `prepare` one image at a time, `describe` a batch of equal shape.

    Making a model is cheap: weights are read, or downloaded, when `load`, `fingerprint` or `describe` is
    called first. A subclass defines the class attributes, `prepare`, `describe` and `settings`.

    Parameters
    ----------
    variant : str, optional
        One of `variants`; `default_variant` if not given.
    weights : path-like, optional
        Weights file to use instead of the published one.
    device : str
        "auto" (CUDA where present, else the processor), "cpu", "cuda", "cuda:1" …
    image_size : int, (height, width) or str, optional
        Size that images are brought to; the choice depends on the model.
    crop : (top, right, bottom, left) or str, optional
        What to cut off at each side, in pixels, or as a fraction where below 1.
    mask : path-like, optional
        Image whose dark pixels are left out.
    """

    name: ClassVar[str]
    licence: ClassVar[str]
    """Licence of the authors' own code."""
    weights_licence: ClassVar[str] = "no weights"
    paper: ClassVar[str]
    extra: ClassVar[str | None] = None
    """Extra of this package that installs what the model needs."""
    packages: ClassVar[Mapping[str, str]] = {}
    """What that extra brings: import names, each with the name to install."""
    variants: ClassVar[Mapping[str, Variant]] = {}
    """Published configurations by name; empty where there is only one."""
    default_variant: ClassVar[str] = ""
    revision: ClassVar[int] = 1
    """Raised whenever a change to the code changes the descriptors."""
    prepare_is_heavy: ClassVar[bool] = False
    """Whether `prepare` does most of the work in Python, so that it gains from several processes."""
    grid: ClassVar[tuple[int, int, int] | None] = None
    """Rows, columns and numbers of each cell, where a descriptor is a grid over the picture: it can then be compared as
    if the picture were moved."""
    cells: ClassVar[CellLayout | None] = None
    """The same where the grid is too coarse for that, or the numbers come first: cells can still be compared."""

    dim: int
    variant: str = ""
    weights: Weights | None = None

    def __init__(
        self,
        variant: str | None = None,
        weights: PathLike | None = None,
        device: str = "auto",
        image_size: Size | None = None,
        crop: Crop | None = None,
        mask: PathLike | None = None,
    ) -> None:
        for module, package in self.packages.items():
            if importlib.util.find_spec(module) is None:
                raise missing_extra(package, self.extra or package, f"model {self.name!r}")
        self._choose_variant(variant)
        self.weights_file = None if weights is None else Path(weights)
        self.device = device
        self.image_size = image_size
        self.mask_file = None if mask is None else Path(mask)
        self.frame = Frame.read(crop, mask)

    @property
    def full_name(self) -> str:
        """Name with the variant, such as "cosplace:resnet50-512"."""
        return f"{self.name}:{self.variant}" if self.variant else self.name

    @abstractmethod
    def prepare(self, image: Image) -> NDArray[np.float32]:
        """Pre-process one decoded RGB image (H, W, 3) into what `describe` takes; begins with `framed`.

        Needs no weights and may run in several threads at once.
        """

    def framed(self, image: Image) -> Image:
        """Check one decoded RGB image (H, W, 3), and apply `crop` and `mask`."""
        image = np.asarray(image)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
            raise InputError(f"image must be RGB, uint8 (H, W, 3); got {image.dtype} of shape {image.shape}")
        return self.frame.apply(image)

    @abstractmethod
    def describe(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Describe prepared images of one shape, (b, ...) to float32 unit vectors (b, dim)."""

    def load(self, progress: Progress | None = None) -> None:  # noqa: B027 - there may be nothing to load
        """Find, or download, check and read the weights now instead of at first use.

        Parameters
        ----------
        progress : callable, optional
            Takes the bytes downloaded so far and the total (None if unknown).
        """

    @classmethod
    def weights_path(cls, weights: Weights) -> Path | None:
        """Path of published weights, whether they exist or not; None if there is no such path."""
        return cached_path(cls.name, weights)

    def settings(self) -> Mapping[str, Any]:
        """Describe the pre-processing, as JSON-able values."""
        return {}

    def weights_sha256(self) -> str | None:
        """SHA-256 of the weights file in use; None for a model without weights."""
        return None

    def fingerprint(self) -> dict[str, Any]:
        """What makes two descriptors comparable, and what `displace.models.open_model` makes the model from again.

        JSON-able. Models whose fingerprints are equal, `image_size` aside, give equal descriptors: several ways to ask
        for a size may come to the same pre-processing. A model of another package names it, for whoever lacks it.
        """
        package = type(self).__module__.partition(".")[0]
        asked = {} if self.image_size is None else {"image_size": self.image_size}
        record = {
            **asked,
            "model": self.name,
            "variant": self.variant,
            "dim": self.dim,
            "revision": self.revision,
            "weights_sha256": self.weights_sha256(),
            "preprocessing": dict(self.settings()),
            **self.frame.record(),
            **({} if package == __name__.partition(".")[0] else {"package": package}),
        }
        # As stores and maps give it back: a tuple would differ from the list that is read there.
        as_read: dict[str, Any] = json.loads(json.dumps(record, default=_jsonable))
        return as_read

    def _choose_variant(self, variant: str | None) -> None:
        """Set the attributes that depend on the variant."""
        if not self.variants:
            if variant:
                raise UnknownNameError(f"model '{self.name}' has no variants; got '{self.name}:{variant}'")
            return
        name = variant or self.default_variant
        check_known(f"variant of {self.name}", [name], self.variants)
        self.variant = name
        self.dim = self.variants[name].dim
        self.weights = self.variants[name].weights


def _jsonable(value: Any) -> Any:
    """Numbers and lists of numpy's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise InputError(
        f"settings() of the model has {value!r}, and must have text, numbers, lists and dicts only: stores record them"
    )


def shows_nothing(grey: NDArray[Any], level: float = 1.0) -> bool:
    """Whether a grey image (H, W) is black, covered or of one colour; `level` is what one of 256 grey levels is in it.

    Such an image has the zero descriptor, whatever the model: that of a network resembles every dark picture.
    """
    small = cv2.resize(grey, _LOOKED_AT, interpolation=cv2.INTER_AREA)
    return bool(small.std() < FAINT * level)
