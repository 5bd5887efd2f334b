"""CosPlace (Berton et al., CVPR 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from displace.models._gem_model import GemModel, gem_variants
from displace.models.base import Variant


class CosPlace(GemModel):
    """Trained to classify small areas of San Francisco."""

    name = "cosplace"
    licence = "MIT"
    weights_licence = "MIT (the repository's)"
    paper = "https://arxiv.org/abs/2204.02287"
    variants: ClassVar[Mapping[str, Variant]] = gem_variants(
        "https://github.com/gmberton/CosPlace/releases/download/v1.0",
        {
            "ResNet18": (32, 64, 128, 256, 512),
            "ResNet50": (32, 64, 128, 256, 512, 1024, 2048),
            "VGG16": (64, 128, 256, 512),
        },
        "cosplace",
    )
