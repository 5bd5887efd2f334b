# mypy: disallow-subclassing-any=False
"""Generalised-mean pooling and a linear layer: CosPlace and EigenPlaces."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional

from displace.models.backbones.resnet import resnet
from displace.models.backbones.vgg import vgg16


class L2Norm(nn.Module):
    """Unit length over the channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise along axis 1."""
        return functional.normalize(x, dim=1)


class GeM(nn.Module):
    """Generalised mean over all positions, with a learned exponent."""

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.full((1,), 3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pool (b, c, H, W) to (b, c, 1, 1)."""
        return x.clamp(min=1e-6).pow(self.p).mean((-2, -1), keepdim=True).pow(1 / self.p)


def gem_network(backbone: str, dim: int) -> nn.Sequential:
    """Build `backbone`, pooling and a projection to `dim`: (b, 3, H, W) to unit vectors (b, dim)."""
    features, channels = vgg16() if backbone == "vgg16" else resnet(backbone)
    head = nn.Sequential(L2Norm(), GeM(), nn.Flatten(), nn.Linear(channels, dim), L2Norm())
    # The checkpoints number the backbone's children.
    return nn.Sequential(OrderedDict(backbone=nn.Sequential(*features), aggregation=head))
