"""NetVLAD (Arandjelović et al., CVPR 2016), from the authors' MATLAB file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from displace.errors import WeightsError
from displace.models._preprocessing import MEAN, STD, AreaLimit, Pixels, Planes, Preprocessing, TensorResize
from displace.models._torch_model import TorchModel
from displace.models._weights import Weights
from displace.models.base import Variant

if TYPE_CHECKING:
    from torch import nn

CONVOLUTIONS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
"""Layers with a convolution, numbered alike in the file and in the network."""
VLAD, WHITENING = 30, 33


@dataclass(frozen=True)
class Denormalized(TensorResize):
    """As `TensorResize`, then back to values in [0, 1], as VPR-methods-evaluation feeds this model."""

    def __call__(self, image: Pixels) -> Planes:
        """Turn an RGB image into a network's input."""
        planes: Planes = np.clip(super().__call__(image) * STD + MEAN, 0, 1)
        return planes


class NetVLAD(TorchModel):
    """VGG-16 trained on Pittsburgh 30k, soft-assigned residuals, whitening; images keep their size by default."""

    name = "netvlad"
    licence = "MIT (hloc's port: Apache-2.0)"
    weights_licence = "not stated"
    paper = "https://arxiv.org/abs/1511.07247"
    default_variant = "vgg16-4096"
    variants: ClassVar[Mapping[str, Variant]] = {
        "vgg16-4096": Variant(
            4096,
            Weights("Pitts30K_struct.mat", "https://cvg-data.inf.ethz.ch/hloc/netvlad/Pitts30K_struct.mat"),
        )
    }
    default: ClassVar[Preprocessing] = Denormalized()
    published: ClassVar[Mapping[str, Preprocessing]] = {"hloc": AreaLimit(1024)}

    def build(self) -> nn.Module:
        """Build the network."""
        from displace.models.heads.vlad import NetVladNetwork

        return NetVladNetwork()

    def smallest_side(self) -> int:
        """VGG-16 halves the image four times."""
        return 16

    def read(self, path: Path, network: nn.Module) -> None:
        """Fill `network` from the MATLAB file, mean colour included."""
        import torch

        from displace.models._checkpoint import fit_state, read_start

        read_start(path, self.expected)
        arrays, mean = read_mat(path, self.expected)
        fit_state(
            network, {name: torch.from_numpy(array) for name, array in arrays.items()}, path, self.expected
        )
        network.mean = torch.from_numpy(mean)


def read_mat(path: Path, expected: str) -> tuple[dict[str, Any], Any]:
    """Read tensors, named as in the network, and the mean colour (3,) from the authors' file."""
    from scipy.io import loadmat

    try:
        net = loadmat(path, struct_as_record=False, squeeze_me=True)["net"]
        layers = {i: net.layers[i].weights for i in (*CONVOLUTIONS, VLAD, WHITENING)}
        mean = net.meta.normalization.averageImage[0, 0]
        arrays = {}
        for i in CONVOLUTIONS:
            arrays[f"backbone.{i}.weight"] = layers[i][0].transpose(3, 2, 0, 1)
            arrays[f"backbone.{i}.bias"] = layers[i][1]
        arrays["netvlad.centers"] = -layers[VLAD][1]  # the file stores them negated
        arrays["netvlad.score_proj.weight"] = layers[VLAD][0].T[:, :, None]
        arrays["whiten.weight"] = layers[WHITENING][0].T
        arrays["whiten.bias"] = layers[WHITENING][1]
    except Exception as error:  # the reader and the struct raise whatever a damaged file leads to
        raise WeightsError(
            f"{path} cannot be read as {expected}: {error}; delete it and get it again"
        ) from error
    contiguous = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    return contiguous, np.asarray(mean, np.float32)
