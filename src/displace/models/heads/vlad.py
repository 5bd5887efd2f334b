# mypy: disallow-subclassing-any=False
"""Soft-assigned residuals and whitening: NetVLAD."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from displace.models.backbones.vgg import vgg16

CLUSTERS = 64
DIM = 4096


class VladLayer(nn.Module):
    """Sums of the residuals to each cluster's centre, weighted by a soft assignment."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.score_proj = nn.Conv1d(channels, CLUSTERS, 1, bias=False)
        self.centers = nn.Parameter(torch.zeros(channels, CLUSTERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Aggregate unit features (b, channels, n) to unit vectors (b, channels · CLUSTERS)."""
        share = self.score_proj(x).softmax(dim=1)
        # Σ a (x − c) = Σ a x − c Σ a, without a residual for every position and cluster.
        sums = x @ share.transpose(1, 2) - self.centers * share.sum(dim=2)[:, None, :]
        return functional.normalize(functional.normalize(sums, dim=1).flatten(1), dim=1)


class NetVladNetwork(nn.Module):
    """VGG-16, NetVLAD and whitening: images in [0, 1], (b, 3, H, W), to unit vectors (b, 4096)."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, channels = vgg16()
        self.netvlad = VladLayer(channels)
        self.whiten = nn.Linear(channels * CLUSTERS, DIM)
        self.register_buffer("mean", torch.zeros(3), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Describe images."""
        pixels = (images * 255).clamp(0, 255) - self.mean[:, None, None]
        features = functional.normalize(self.backbone(pixels).flatten(2), dim=1)
        return functional.normalize(self.whiten(self.netvlad(features)), dim=1)
