"""The index of a descriptor store: which images it lists, and which content each of them has."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

from displace.descriptors.shards import writing_to
from displace.errors import StoreError
from displace.files import schema
from displace.files.atomic import write_json
from displace.files.reading import read_json
from displace.manifest.csv_file import REQUIRED
from displace.manifest.table import Manifest
from displace.models import comparable

INDEX = "index.json"
FORMAT = 1


@dataclass(frozen=True)
class StoreIndex:
    """What ``index.json`` holds."""

    model: dict[str, Any]
    """Fingerprint of the model."""
    dim: int
    """Length of a descriptor."""
    dtype: str
    """Stored type, "float32" or "float16"."""
    manifest: Manifest = field(default_factory=lambda: Manifest([], [], []))
    """The images that are listed, described or not."""
    hashes: list[str | None] = field(default_factory=list)
    """Content hash of each image; None where the file could not be read."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Images that could not be described, and why."""

    @property
    def owner(self) -> str:
        """Mark of the model and type, which the shards carry."""
        identity = json.dumps([comparable(self.model), self.dim, self.dtype], sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    @classmethod
    def read(cls, folder: Path) -> StoreIndex:
        """Read the index of the store in `folder`."""
        path = folder / INDEX
        try:
            record = schema.mapping(read_json(path), "the index")
            if schema.whole(record["format"], "format") > FORMAT:
                raise StoreError(
                    f"{folder} has format {record['format']}, this version of displace reads up to {FORMAT}: "
                    "pip install -U displace"
                )
            return cls._parse(record, folder)
        except (FileNotFoundError, NotADirectoryError):
            what = "is not a descriptor store" if folder.exists() else "does not exist"
            raise StoreError(f"{folder} {what}; {_way_to_one(folder)}") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{path} cannot be read ({type(error).__name__}: {error}); "
                "restore it, or extract anew with --overwrite"
            ) from None

    @classmethod
    def _parse(cls, record: dict[str, Any], folder: Path) -> StoreIndex:
        columns = schema.mapping(record["columns"], "columns")
        images, places, traversals = (
            schema.listed(columns.pop(name), name, schema.text) for name in REQUIRED
        )
        numbers: dict[str, Any] = {
            name: schema.listed(values, name, _number) for name, values in columns.items()
        }
        root = folder / schema.text(record["root"], "root", 4096)
        manifest = Manifest(images, places, traversals, root, **numbers)
        if len(record["hashes"]) != len(manifest):
            raise ValueError(f"{len(record['hashes'])} hashes for {len(manifest)} images")
        schema.require(record["dtype"] in ("float32", "float16"), f"dtype is {schema.shown(record['dtype'])}")
        return cls(
            schema.mapping(record["model"], "model"),
            schema.whole(record["dim"], "dim", 1, schema.MAX_DIM),
            record["dtype"],
            manifest,
            schema.listed(record["hashes"], "hashes", _hash),
            schema.mapping(record["skipped"], "skipped", schema.text),
        )

    def write(self, folder: Path) -> None:
        """Replace the index of the store in `folder`."""
        manifest = self.manifest
        columns: dict[str, list[Any]] = {
            "image": manifest.images,
            "place": manifest.places.tolist(),
            "traversal": manifest.traversals.tolist(),
        }
        for name, values in manifest.numbers.items():
            # JSON has no NaN.
            columns[name] = [None if math.isnan(value) else value for value in values.tolist()]
        record = {
            "format": FORMAT,
            "model": self.model,
            "dim": self.dim,
            "dtype": self.dtype,
            "root": os.path.relpath(manifest.root, folder),
            "skipped": self.skipped,
            "columns": columns,
            "hashes": self.hashes,
        }
        with writing_to(folder):
            write_json(folder / INDEX, record, indent=None)

    def listing(self, manifest: Manifest, hashes: Sequence[str | None]) -> StoreIndex:
        """Return the index that lists the images of `manifest`, with the content hash of each."""
        return replace(self, manifest=manifest, hashes=list(hashes), skipped={})

    def relabelled(self, manifest: Manifest) -> StoreIndex:
        """Return the index with the rows of `manifest`, whose images must be known by name or by path."""
        by_name = dict(zip(self.manifest.images, self.hashes, strict=True))
        by_path = dict(zip(map(_real, self.manifest.paths()), self.hashes, strict=True))
        hashes: list[str | None] = []
        unknown = []
        for name, path in zip(manifest.images, map(_real, manifest.paths()), strict=True):
            if path not in by_path and name not in by_name:
                unknown.append(name)
            # The path first: two manifests may call different files alike, each relative to its own folder.
            hashes.append(by_path.get(path) or by_name.get(name))
        if unknown:
            raise StoreError(
                f"{len(unknown)} of the manifest's {len(hashes)} images are not in the store, "
                f"first {unknown[0]}; add them with: displace extract MANIFEST -o STORE"
            )
        skipped = {name: why for name, why in self.skipped.items() if name in set(manifest.images)}
        return replace(self.listing(manifest, hashes), skipped=skipped)


def _number(value: Any, name: str) -> float | None:
    return None if value is None else schema.number(value, name)


def _hash(value: Any, name: str) -> str | None:
    return None if value is None else schema.text(value, name, 200)


def _real(path: Path) -> str:
    # Without following links: the name is what two manifests share.
    return os.path.normpath(Path.cwd() / path)


def _way_to_one(given: Path) -> str:
    """How to make a store of what was given instead of one."""
    from displace.images import has_images

    if given.is_file() and given.suffix == ".displace":
        return "it is a map: give the store that it was built from"
    if given.is_file() and given.suffix.lower() == ".csv":
        return f"make one with: displace extract {quote(str(given))}"
    if given.is_dir() and has_images(given):
        return f"make one with: displace manifest {quote(str(given))} -o route.csv, then displace extract route.csv"
    return "make one with: displace extract MANIFEST -o STORE"
