"""One's own data: any layout that `displace.manifest.builder` understands."""

from __future__ import annotations

from pathlib import Path

from displace.datasets.base import Dataset, Protocol
from displace.manifest.builder import build_manifest
from displace.manifest.table import Manifest
from displace.truth import Tolerance


class Folder(Dataset):
    """A folder of recordings, evaluated by leaving out each traversal in turn."""

    name = "folder"
    title = "a folder of recordings"
    paper = ""
    obtain = "Give a folder with one sub-folder of images for each traversal, or with a manifest.csv."
    protocols = (
        Protocol("exact", Tolerance("exact"), note="each traversal in turn against all others"),
        Protocol("frames-2", Tolerance("frames", 2)),
        Protocol("metres-10", Tolerance("metres", 10)),
        Protocol("metres-25", Tolerance("metres", 25)),
    )

    def read(self, root: Path) -> Manifest:
        """Detect the layout and make the manifest."""
        return build_manifest(root)
