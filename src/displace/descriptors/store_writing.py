"""Writing a descriptor store: one writer at a time, one model in a store."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from displace.descriptors.shards import exclusive, writing_to
from displace.descriptors.store import DescriptorStore, is_store
from displace.descriptors.store_index import INDEX, StoreIndex
from displace.errors import StoreError
from displace.files.atomic import make_folder, remove_leftovers
from displace.files.reading import PathLike
from displace.manifest.table import Manifest
from displace.models import differences, model_name


def relabel(folder: PathLike, manifest: Manifest) -> DescriptorStore:
    """Replace places, traversals and positions of a store on disk; see `DescriptorStore.with_manifest`."""
    DescriptorStore(folder)  # refuses other folders before a lock file is created
    _check_no_links(Path(folder))
    with exclusive(Path(folder)):
        store = DescriptorStore(folder).with_manifest(manifest)
        store.index.write(store.folder)
    return store


@contextmanager
def opened_for_writing(
    folder: Path, model: Mapping[str, Any], dim: int, dtype: str | None = None, overwrite: bool = False
) -> Iterator[DescriptorStore]:
    """Create or reopen a store as its only writer, and remove what killed writers left.

    A folder with other things in it, and a store with descriptors of another model, are refused. By default `dtype` is
    the store's own, float32 for a new one; `overwrite` drops the descriptors that it holds.
    """
    _check_replaceable(folder, overwrite)
    _check_no_links(folder)
    with writing_to(folder):
        make_folder(folder)
    with exclusive(folder):
        remove_leftovers(folder / INDEX)
        # Through JSON, so that a tuple equals the list that was stored.
        asked = StoreIndex(json.loads(json.dumps(dict(model))), dim, dtype or "float32")
        if is_store(folder) and not overwrite:
            _check_same(folder, StoreIndex.read(folder), asked, dtype)
        else:
            asked.write(folder)
        store = DescriptorStore(folder, verify=True)
        store.shards.clean()
        yield store


def _check_replaceable(folder: Path, overwrite: bool) -> None:
    """Refuse to write into a file, or into a folder with other files."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; a store is a folder: choose another name with -o")
    if not folder.exists() or (is_store(folder) and not overwrite) or _is_readable(folder):
        return
    parts = {INDEX, "lock", "shards"} if (folder / "shards").is_dir() else {"lock"}
    foreign = sorted(p.name for p in folder.iterdir() if p.name not in parts and not p.name.endswith(".tmp"))
    if foreign:
        raise StoreError(
            f"{folder} holds other files ({foreign[0]}, …) and is no descriptor store; "
            "choose a new folder with -o"
        )


def _is_readable(folder: Path) -> bool:
    try:
        StoreIndex.read(folder)
    except StoreError:
        return False
    return True


def _check_no_links(folder: Path) -> None:
    """Refuse to write through links, which may lead out of the store."""
    shards = folder / "shards"
    parts = [folder / INDEX, folder / "lock", shards]
    if shards.is_dir() and not shards.is_symlink():
        parts += [shards / entry.name for entry in os.scandir(shards) if entry.is_symlink()]
    for part in parts:
        if part.is_symlink():
            raise StoreError(
                f"{part} is a link, and a store is not written through links: replace it by what it leads to, "
                "or choose another folder with -o"
            )


def _check_same(folder: Path, stored: StoreIndex, asked: StoreIndex, dtype: str | None) -> None:
    """Refuse to mix descriptors of two models, or of two types, in one store."""
    way_out = "Write to another folder with -o, or start anew with --overwrite."
    parts = [
        f"{key}: {old!r} / {new!r}" for key, (old, new) in differences(stored.model, asked.model).items()
    ]
    if parts:
        raise StoreError(
            f"{folder} holds descriptors of {model_name(stored.model)}; those of {model_name(asked.model)} as asked "
            f"for cannot be compared with them. {way_out} In the store / asked for:\n  " + "\n  ".join(parts)
        )
    if dtype and dtype != stored.dtype:
        raise StoreError(f"{folder} holds {stored.dtype} and dtype={dtype} is asked for. {way_out}")
