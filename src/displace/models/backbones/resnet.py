# mypy: disallow-subclassing-any=False
"""ResNet feature maps, without the classifier."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn


def _projection(inputs: int, outputs: int, stride: int) -> nn.Module | None:
    """Return the shortcut of a block that changes the shape; None if it does not."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut (ResNet-18)."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.downsample = _projection(inputs, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the two convolutions to the shortcut."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(shortcut + self.bn2(self.conv2(x)))


class Bottleneck(nn.Module):
    """A 3×3 convolution between two 1×1 ones, and a shortcut (ResNet-50); the stride sits in the 3×3."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.downsample = _projection(inputs, outputs, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the three convolutions to the shortcut."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(shortcut + self.bn3(self.conv3(x)))


BLOCKS: dict[str, tuple[type[BasicBlock | Bottleneck], tuple[int, ...]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
}
"""Kind of block, and how many of them each stage has."""


def resnet(name: str, n_stages: int = 4) -> tuple[nn.Sequential, int]:
    """Build a ResNet up to stage `n_stages`, and say how many channels it ends with.

    Its children are conv1, bn1, relu, maxpool, layer1 … in this order; (b, 3, H, W) to (b, channels, H', W').
    """
    block, counts = BLOCKS[name]
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        bn1=nn.BatchNorm2d(64),
        relu=nn.ReLU(),
        maxpool=nn.MaxPool2d(3, stride=2, padding=1),
    )
    channels = 64
    for stage, count in enumerate(counts[:n_stages]):
        blocks = []
        for i in range(count):
            stride = 2 if stage > 0 and i == 0 else 1
            blocks.append(block(channels, 64 * 2**stage, stride))
            channels = 64 * 2**stage * block.expansion
        layers[f"layer{stage + 1}"] = nn.Sequential(*blocks)
    return nn.Sequential(layers), channels
