"""Base of the PyTorch models: pre-processing, weights, device and inference."""

from __future__ import annotations

import dataclasses
import threading
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from displace.errors import ImageError, InputError, WeightsError
from displace.models import _weights
from displace.models._preprocessing import Preprocessing, TensorResize, parse_size, record
from displace.models._weights import Progress
from displace.models.base import DescriptorModel, Image, shows_nothing

if TYPE_CHECKING:
    from torch import nn


class TorchModel(DescriptorModel):
    """A network with published weights. A subclass defines `build`, and the class attributes.

    This module and those of the models do not import torch, so that models can be listed without it:
    networks live in files of their own, which `build` imports.
    """

    extra = "torch"
    packages: ClassVar[Mapping[str, str]] = {"torch": "torch"}
    default: ClassVar[Preprocessing] = TensorResize()
    """Pre-processing when no image size is given."""
    published: ClassVar[Mapping[str, Preprocessing]] = {}
    """Other published pre-processings, each chosen by giving its name as the image size."""
    only_size: ClassVar[tuple[int, int] | None] = None
    """Height and width of a network that takes no other."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.preprocessing = self._choose_preprocessing()
        self._lock = threading.RLock()
        self._located: tuple[Path, str] | None = None
        self._network: nn.Module | None = None

    @abstractmethod
    def build(self) -> nn.Module:
        """Build the network, whose parameters have the names in the weights file."""

    def read(self, path: Path, network: nn.Module) -> None:
        """Fill `network`, built without memory, from the weights file."""
        from displace.models._checkpoint import fit_state, read_state

        state = self.renamed(read_state(path, self.expected))
        fit_state(network, state, path, self.expected)

    def renamed(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Rename the tensors of older weights files."""
        return state

    def smallest_side(self) -> int:
        """Pixels that the network's input needs at least on each side."""
        return 1

    @property
    def expected(self) -> str:
        """What the weights file should be, for messages."""
        weights = self.weights
        published = f" ({weights.file} from {weights.address})" if weights else ""
        return f"the weights of {self.full_name}{published}"

    @property
    def network(self) -> nn.Module:
        """The network with its weights, in evaluation mode on its device."""
        self.load()
        return self._network

    def prepare(self, image: Image) -> NDArray[np.float32]:
        """Crop, mask and pre-process one RGB image, (H, W, 3) to (3, H', W')."""
        planes = self.preprocessing(self.framed(image))
        self.check_input(planes.shape[1], planes.shape[2])
        return planes

    def check_input(self, height: int, width: int) -> None:
        """Refuse an image too small for the network."""
        smallest = self.smallest_side()
        if min(height, width) < smallest:
            raise ImageError(
                f"an image of {width}×{height} is too small for {self.full_name}, which needs {smallest} pixels on "
                "each side; pass a larger image_size (--image-size)"
            )

    def describe(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Describe prepared images of one shape, (b, 3, H, W) to float32 unit vectors (b, dim), or zeros if black."""
        if batch.ndim != 4 or batch.shape[1] != 3:
            raise InputError(f"batch must have shape (b, 3, H, W); got {batch.shape}")
        network = self.network
        import torch

        device = next(network.parameters()).device
        tensor = torch.from_numpy(np.ascontiguousarray(batch, np.float32)).to(device)
        # The same bits on every run: no search for the fastest kernel, no atomics, no reduced precision.
        exact = torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        )
        with torch.inference_mode(), exact:
            vectors: NDArray[np.float32] = network(tensor).float().cpu().numpy()
        vectors[[shows_nothing(planes.mean(axis=0), self._grey_level) for planes in batch]] = 0.0
        return vectors

    @cached_property
    def _grey_level(self) -> float:
        """What one of 256 grey levels is in prepared images."""
        black, white = (self.preprocessing(np.full((64, 64, 3), level, np.uint8)) for level in (0, 255))
        return float((white - black).mean()) / 255

    def load(self, progress: Progress | None = None) -> None:
        """Find, or download, check and read the weights now instead of at first use."""
        with self._lock:
            if self._network is not None:
                return
            import torch

            path, _ = self._verify(progress)
            device = self._choose_device()
            with torch.device("meta"):  # no memory, no random numbers for tensors about to be replaced
                network = self.build()
            try:
                self.read(path, network)
            except WeightsError:
                _weights.forget_digest(path)
                raise
            self._network = network.eval().requires_grad_(False).to(device)

    def settings(self) -> Mapping[str, Any]:
        """Describe the pre-processing, as JSON-able values."""
        return record(self.preprocessing)

    def weights_sha256(self) -> str:
        """SHA-256 of the weights file in use, which is downloaded if need be."""
        with self._lock:
            return self._verify(None)[1]

    def _verify(self, progress: Progress | None) -> tuple[Path, str]:
        """Locate the weights, download them if need be, and check their SHA-256, once."""
        if self._located is None:
            path, published = self.weights_file, None
            if path is None and self.weights is not None:
                path, published = self.weights_path(self.weights), self.weights.sha256
                if path is not None:
                    _weights.fetch(path, self.full_name, self.weights, progress)
            if path is None:
                raise WeightsError(
                    f"{self.full_name} has no published weights; pass weights=FILE (--weights FILE)"
                )
            if not path.is_file():
                raise WeightsError(f"weights file {path} is not there; expected {self.expected}")
            self._located = path, _weights.checked_sha256(path, published)
        return self._located

    def _choose_preprocessing(self) -> Preprocessing:
        """Turn `image_size` into a pre-processing."""
        asked = self.image_size
        if asked is None:
            return self.default
        if isinstance(asked, str) and asked in self.published:
            return self.published[asked]
        names = "".join(f", {name!r}" for name in self.published)
        try:
            size = parse_size(asked)
        except InputError as error:
            raise InputError(
                f"{error}{'; ' + self.name + ' also takes' + names[1:] if names else ''}"
            ) from None
        if self.only_size is not None and size not in (self.only_size, *set(self.only_size)):
            height, width = self.only_size
            raise InputError(f"image_size={asked!r}: {self.name} takes {width}x{height} only{names}")
        if self.only_size is not None:
            return self.default
        return dataclasses.replace(self.default, size=size)  # type: ignore[type-var]

    def _choose_device(self) -> Any:
        """Turn `device` into a device of PyTorch that is there."""
        import torch

        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            device = torch.device(name)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(
                f"device={self.device!r} cannot be used: {reason}; pass 'auto' or 'cpu'"
            ) from error
        return device
