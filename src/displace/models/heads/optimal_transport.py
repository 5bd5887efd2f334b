# mypy: disallow-subclassing-any=False
"""Aggregation by optimal transport of patches to clusters: SALAD, and MegaLoc on top of it."""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional

from displace.models.backbones.dinov2 import WIDTH, DinoV2

CLUSTERS = 64
TOKEN_DIM = 256
ITERATIONS = 3


def transport(scores: torch.Tensor, dust_bin: torch.Tensor) -> torch.Tensor:
    """Assign each patch to clusters by log-domain Sinkhorn iterations: shares of shape (b, clusters, n), as the scores.

    The score `dust_bin` is that of an extra row that takes the patches of no cluster: all but one for each cluster.
    """
    b, m, n = scores.shape
    scores = torch.cat([scores, dust_bin.expand(b, 1, n)], dim=1)
    # The published descriptors were made with these constants in float32.
    norm = torch.tensor(-math.log(n + m), dtype=torch.float32, device=scores.device)
    log_rows = torch.cat([norm.expand(m), (norm + math.log(n - m)).expand(1)]).to(scores.dtype)
    norm = norm.to(scores.dtype)
    columns = torch.zeros_like(scores[:, :1])
    for _ in range(ITERATIONS):
        rows = log_rows[:, None] - torch.logsumexp(scores + columns, dim=2, keepdim=True)
        columns = norm - torch.logsumexp(scores + rows, dim=1, keepdim=True)
    return (scores + rows + columns - norm).exp()[:, :-1]


def _perceptron(outputs: int) -> nn.Sequential:
    """Two 1×1 convolutions; the identity keeps the place of the dropout of training."""
    return nn.Sequential(nn.Conv2d(WIDTH, 512, 1), nn.Identity(), nn.ReLU(), nn.Conv2d(512, outputs, 1))


class TransportHead(nn.Module):
    """The class token and, for each cluster, the sum of the patches assigned to it."""

    def __init__(self, cluster_dim: int) -> None:
        super().__init__()
        self.dust_bin = nn.Parameter(torch.ones(()))
        self.token_features = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, TOKEN_DIM))
        self.cluster_features = _perceptron(cluster_dim)
        self.score = _perceptron(CLUSTERS)

    def forward(self, features: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Aggregate patches (b, WIDTH, h, w) and token (b, WIDTH) to unit vectors (b, dim)."""
        patches, token = features
        shares = transport(self.score(patches).flatten(2), self.dust_bin)
        sums = self.cluster_features(patches).flatten(2) @ shares.transpose(1, 2)
        parts = [
            functional.normalize(self.token_features(token), dim=1),
            functional.normalize(sums, dim=1).flatten(1),
        ]
        return functional.normalize(torch.cat(parts, dim=1), dim=1)


class ProjectedTransportHead(nn.Module):
    """A `TransportHead` with clusters of 256 dimensions, and a linear layer to `dim`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.agg = TransportHead(256)
        self.linear = nn.Linear(TOKEN_DIM + CLUSTERS * 256, dim)

    def forward(self, features: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Aggregate patches and token to unit vectors (b, dim)."""
        return functional.normalize(self.linear(self.agg(features)), dim=1)


def salad_network() -> nn.Sequential:
    """Build DINOv2 and SALAD: (b, 3, H, W) to unit vectors (b, 8448)."""
    backbone = nn.Sequential(OrderedDict(model=DinoV2(mask_token=True)))
    return nn.Sequential(OrderedDict(backbone=backbone, aggregator=TransportHead(128)))


def megaloc_network(dim: int) -> nn.Sequential:
    """Build DINOv2 and MegaLoc's head: (b, 3, H, W) to unit vectors (b, dim)."""
    backbone = DinoV2(mask_token=False)
    return nn.Sequential(OrderedDict(backbone=backbone, aggregator=ProjectedTransportHead(dim)))
