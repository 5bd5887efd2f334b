"""Recall@N, what counts as correct, and how sure a difference is."""

from displace.metrics.bootstrap import Estimate, bootstrap, paired_bootstrap
from displace.metrics.recall import Recalls, recall_at
from displace.metrics.truth import Flags, PlaceSets, SamePlace, TruthRule, WithinFrames, WithinMetres

__all__ = [
    "Estimate",
    "Flags",
    "PlaceSets",
    "Recalls",
    "SamePlace",
    "TruthRule",
    "WithinFrames",
    "WithinMetres",
    "bootstrap",
    "paired_bootstrap",
    "recall_at",
]
