"""EigenPlaces (Berton et al., ICCV 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from displace.models._gem_model import GemModel, gem_variants
from displace.models.base import Variant


class EigenPlaces(GemModel):
    """CosPlace's network, trained on several views of each place, against changes of viewpoint."""

    name = "eigenplaces"
    licence = "MIT"
    weights_licence = "MIT (the repository's)"
    paper = "https://arxiv.org/abs/2308.10832"
    variants: ClassVar[Mapping[str, Variant]] = gem_variants(
        "https://github.com/gmberton/EigenPlaces/releases/download/v1.0",
        {"ResNet18": (256, 512), "ResNet50": (128, 256, 512, 2048), "VGG16": (512,)},
        "eigenplaces",
    )
