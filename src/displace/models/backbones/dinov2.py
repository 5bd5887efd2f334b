# mypy: disallow-subclassing-any=False
"""DINOv2 ViT-B/14: a feature map of patches and one class token."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional

WIDTH, DEPTH, HEADS = 768, 12, 12
PATCH = 14
GRID = 37
"""Patches along a side in training (518 pixels), for which the position embedding is stored."""


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix tokens, (b, n, WIDTH) to the same shape."""
        b, n, _ = x.shape
        query, key, value = self.qkv(x).reshape(b, n, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).reshape(b, n, WIDTH))


class LayerScale(nn.Module):
    """One learned factor for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale the channels."""
        return x * self.gamma


class TransformerBlock(nn.Module):
    """Attention, then a two-layer perceptron, each on normalised tokens and added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn = Attention()
        self.ls1 = LayerScale()
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.Sequential(
            OrderedDict(fc1=nn.Linear(WIDTH, 4 * WIDTH), act=nn.GELU(), fc2=nn.Linear(4 * WIDTH, WIDTH))
        )
        self.ls2 = LayerScale()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Update the tokens, (b, n, WIDTH) to the same shape."""
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class DinoV2(nn.Module):
    """DINOv2 ViT-B/14.

    Some checkpoints hold the token for masked training patches (`mask_token`), which inference never uses.
    """

    def __init__(self, mask_token: bool) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + GRID * GRID, WIDTH))
        if mask_token:
            self.mask_token = nn.Parameter(torch.zeros(1, WIDTH))
        self.patch_embed = nn.Sequential(OrderedDict(proj=nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)))
        self.blocks = nn.Sequential(*[TransformerBlock() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Describe patches (b, WIDTH, H/14, W/14) and image (b, WIDTH) of (b, 3, H, W), multiples of 14."""
        patches = self.patch_embed(images)
        b, _, rows, columns = patches.shape
        tokens = torch.cat([self.cls_token.expand(b, -1, -1), patches.flatten(2).transpose(1, 2)], dim=1)
        tokens = self.norm(self.blocks(tokens + self.positions(rows, columns)))
        patches = tokens[:, 1:].transpose(1, 2).reshape(b, WIDTH, rows, columns)
        return patches, tokens[:, 0]

    def positions(self, rows: int, columns: int) -> torch.Tensor:
        """Position embedding for a grid of another size than the trained one, (1, 1 + rows·columns, WIDTH)."""
        if (rows, columns) == (GRID, GRID):
            return self.pos_embed
        # Published descriptors were made in float32 and with these very scale factors: they shift the
        # sampling points, so that asking for the output size instead changes the descriptor.
        stored = self.pos_embed.float()
        grid = stored[:, 1:].reshape(1, GRID, GRID, WIDTH).permute(0, 3, 1, 2)
        scale = ((rows + 0.1) / GRID, (columns + 0.1) / GRID)
        grid = functional.interpolate(grid, scale_factor=scale, mode="bicubic")
        resized = torch.cat([stored[:, :1], grid.flatten(2).transpose(1, 2)], dim=1)
        return resized.to(self.pos_embed.dtype)
