# mypy: disallow-subclassing-any=False
"""Feature mixing: MixVPR."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional

from displace.models.backbones.resnet import resnet

POSITIONS = 20 * 20
"""Positions of the third stage's feature map for an image of 320×320."""


class FeatureMixer(nn.Module):
    """A perceptron over the positions of each channel, added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Sequential(
            nn.LayerNorm(POSITIONS),
            nn.Linear(POSITIONS, POSITIONS),
            nn.ReLU(),
            nn.Linear(POSITIONS, POSITIONS),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix (b, channels, positions) to the same shape."""
        return x + self.mix(x)


class MixHead(nn.Module):
    """Four mixers, then a projection of the channels and one of the positions."""

    def __init__(self, channels: int, out_channels: int, out_rows: int) -> None:
        super().__init__()
        self.mix = nn.Sequential(*[FeatureMixer() for _ in range(4)])
        self.channel_proj = nn.Linear(channels, out_channels)
        self.row_proj = nn.Linear(POSITIONS, out_rows)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Describe a feature map, (b, channels, 20, 20) to unit vectors (b, out_channels · out_rows)."""
        x = self.mix(x.flatten(2))
        x = self.channel_proj(x.transpose(1, 2)).transpose(1, 2)
        return functional.normalize(self.row_proj(x).flatten(1), dim=1)


def mixvpr_network(out_channels: int, out_rows: int) -> nn.Sequential:
    """Build ResNet-50 up to its third stage and the head: (b, 3, 320, 320) to (b, out_channels · out_rows)."""
    features, channels = resnet("resnet50", n_stages=3)
    backbone = nn.Sequential(OrderedDict(model=features))
    return nn.Sequential(OrderedDict(backbone=backbone, aggregator=MixHead(channels, out_channels, out_rows)))
