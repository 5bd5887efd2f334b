# mypy: disallow-subclassing-any=False
"""Average over a coarse grid: EfficientNet-Lite0."""

from __future__ import annotations

import torch
from efficientnet_lite_pytorch import EfficientNet
from torch.nn import functional

LAST_BLOCK = 10
GRID = 4


class GridNetwork(EfficientNet):
    """EfficientNet up to one of its blocks: (b, 3, 224, 224) to unit vectors (b, 112 · 4 · 4)."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Describe images; the blocks behind the last one used, and the classifier, do not run."""
        # With the channels last, the depthwise convolutions take a third less time on a processor.
        images = images.contiguous(memory_format=torch.channels_last)
        x = self._swish(self._bn0(self._conv_stem(images)))
        for block in self._blocks[: LAST_BLOCK + 1]:
            x = block(x)
        return functional.normalize(functional.adaptive_avg_pool2d(x, GRID).flatten(1), dim=1)


def lite_network() -> GridNetwork:
    """Build EfficientNet-Lite0 for the descriptor."""
    network: GridNetwork = GridNetwork.from_name("efficientnet-lite0")
    return network
