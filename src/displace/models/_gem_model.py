"""Base of CosPlace and EigenPlaces: one network, trained in two ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from displace.models._torch_model import TorchModel
from displace.models._weights import Weights
from displace.models.base import Variant

if TYPE_CHECKING:
    from torch import nn

SMALLEST_SIDE = {"vgg16": 16, "resnet18": 1, "resnet50": 1}
"""VGG-16 halves the image four times; ResNet pads."""


def gem_variants(release: str, dims: Mapping[str, Sequence[int]], suffix: str) -> dict[str, Variant]:
    """Describe the published configurations: one file for each backbone and dimension."""
    variants = {}
    for backbone, sizes in dims.items():
        for dim in sizes:
            file = f"{backbone}_{dim}_{suffix}.pth"
            weights = Weights(file, f"{release}/{file}")
            variants[f"{backbone.lower()}-{dim}"] = Variant(dim, weights, backbone.lower())
    return variants


class GemModel(TorchModel):
    """Backbone, generalised-mean pooling and a linear layer; images keep their size by default."""

    default_variant = "resnet50-512"

    def build(self) -> nn.Module:
        """Build the network."""
        from displace.models.heads.gem import gem_network

        return gem_network(self.variants[self.variant].backbone, self.dim)

    def smallest_side(self) -> int:
        """Pixels that the network's input needs at least on each side."""
        return SMALLEST_SIDE[self.variants[self.variant].backbone]
