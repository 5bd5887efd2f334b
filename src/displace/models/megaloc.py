"""MegaLoc (Berton and Masone, CVPR workshops 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from displace.models._patch_model import PatchModel
from displace.models._weights import Weights
from displace.models.base import Variant

if TYPE_CHECKING:
    from torch import nn

REVISION = "7cb9f7970d366fdf059963d04d372e503e8e9df9"
"""Commit of the repository of weights, because later files may have the same name."""


class MegaLoc(PatchModel):
    """SALAD's network with larger clusters and a linear layer, trained on many data sets at once."""

    name = "megaloc"
    licence = "MIT"
    weights_licence = "MIT (the repository's)"
    paper = "https://arxiv.org/abs/2502.17237"
    default_variant = "8448"
    variants: ClassVar[Mapping[str, Variant]] = {
        "8448": Variant(
            8448,
            Weights(
                "model.safetensors",
                f"https://huggingface.co/gberton/MegaLoc/resolve/{REVISION}/model.safetensors",
                sha256="d4f9f2bcb60018f91eb6a8e061ed054fd55654e10c2569cf13841ea986ffb4f8",
            ),
        )
    }

    def build(self) -> nn.Module:
        """Build the network."""
        from displace.models.heads.optimal_transport import megaloc_network

        return megaloc_network(self.dim)

    def renamed(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Accept the first release, ``megaloc.torch``: one more level of names and an unused token."""
        old = "backbone.model."
        return {
            name.replace(old, "backbone.", 1) if name.startswith(old) else name: tensor
            for name, tensor in state.items()
            if name != old + "mask_token"
        }
