"""VGG-16 feature maps up to the last convolution."""

from __future__ import annotations

from torch import nn

WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of the convolutions of each stage; there is a pooling between two stages."""


def vgg16() -> tuple[nn.Sequential, int]:
    """Build VGG-16 up to conv5_3, without its ReLU, and say how many channels it ends with.

    Its children are numbered as in the original's ``features``, 0 to 28; (b, 3, H, W) to (b, 512, H/16, W/16).
    """
    layers: list[nn.Module] = []
    channels = 3
    for stage in WIDTHS:
        for width in stage:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers[:-2]), channels
