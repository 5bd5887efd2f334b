"""SALAD (Izquierdo and Civera, CVPR 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from displace.models._patch_model import SIZE, PatchModel
from displace.models._preprocessing import PillowResize, Preprocessing
from displace.models._weights import Weights
from displace.models.base import Variant

if TYPE_CHECKING:
    from torch import nn


class Salad(PatchModel):
    """DINOv2, fine-tuned, whose patches are assigned to clusters by optimal transport."""

    name = "salad"
    licence = "GPL-3.0 (DINOv2: Apache-2.0)"
    weights_licence = "GPL-3.0 (the repository's)"
    paper = "https://arxiv.org/abs/2311.15937"
    default_variant = "8448"
    variants: ClassVar[Mapping[str, Variant]] = {
        "8448": Variant(
            8448,
            Weights(
                "dino_salad.ckpt", "https://github.com/serizba/salad/releases/download/v1.0.0/dino_salad.ckpt"
            ),
        )
    }
    published: ClassVar[Mapping[str, Preprocessing]] = {"pil-bilinear": PillowResize(SIZE, "BILINEAR")}

    def build(self) -> nn.Module:
        """Build the network."""
        from displace.models.heads.optimal_transport import salad_network

        return salad_network()
