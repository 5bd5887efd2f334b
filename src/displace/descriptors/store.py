"""DescriptorStore: the descriptors of a route's images with their places and traversals, in one folder.

::

    route.desc/
      index.json      format version, model, the manifest's columns, each image's content hash, skipped images
      shards/*.npy    vectors; shards/*.json: which content hash each row belongs to
      lock            held by the one process that writes

A vector belongs to an image's content, not to its name or number: the index says which content each image
has, the shards hold a vector for each content. Both are only ever replaced or added as whole files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from displace.arrays import Indices, Vectors
from displace.descriptors.shards import Shards
from displace.descriptors.store_index import INDEX, StoreIndex
from displace.errors import InputError
from displace.files.reading import PathLike
from displace.manifest.place_assignment import places_of
from displace.manifest.table import Manifest
from displace.references import ReferenceSet, ReferenceStream, view_groups
from displace.registry import check_known


class Queries(NamedTuple):
    """Described images of one traversal, ready to be located."""

    vectors: Vectors
    """(q, D)"""
    places: NDArray[np.str_]
    """(q,) place ids; an empty string where the place is not known"""
    manifest: Manifest
    """the rows: image names, positions, frames"""


class DescriptorStore:
    """Descriptors on disk. Opening reads names and places; vectors are read on demand.

    Rows are the described images in the manifest's order: those of `manifest` and of `vectors()` go together.

    Parameters
    ----------
    folder : path-like
        A folder written by `extract` (``route.desc``).
    verify : bool
        Read all vectors now and compare their checksums; images whose vectors are damaged count as not described.
        Otherwise damage raises an error when the vectors are read.

    Attributes
    ----------
    manifest : Manifest
        The described images with places, traversals and positions.
    contents : list of str
        Content hash of each described image.
    missing : list of str
        Images listed without a descriptor: skipped, or not reached yet.
    skipped : dict of str to str
        Images that the last run could not read, and why.
    model : dict
        Fingerprint of the model that made the descriptors.
    dim : int
        Length of a descriptor.
    dtype : dtype
        Type of the stored numbers.

    Examples
    --------
    >>> store = DescriptorStore("route.desc")                          # doctest: +SKIP
    >>> refs = store.references(exclude=["night"])                     # doctest: +SKIP
    >>> fusion = DisPlace().fit(refs.vectors, refs.places)             # doctest: +SKIP
    >>> matches = fusion.rank(store.queries("night").vectors)          # doctest: +SKIP
    """

    def __init__(self, folder: PathLike, verify: bool = False) -> None:
        folder = Path(folder)
        index = StoreIndex.read(folder)
        shards = Shards(folder / "shards", index.owner, index.dim, index.dtype)
        if verify:
            shards.verify()
        self._attach(folder, index, shards)

    def _attach(self, folder: Path, index: StoreIndex, shards: Shards) -> None:
        """Put an index and the shards of its model together."""
        self.folder, self.index, self.shards, self.skipped = folder, index, shards, index.skipped
        self.model, self.dim, self.dtype = index.model, index.dim, np.dtype(index.dtype)
        described = np.fromiter((content in shards for content in index.hashes), bool, len(index.hashes))
        self.manifest = index.manifest.select(described)
        self.missing = [index.manifest.images[row] for row in np.flatnonzero(~described)]
        self.contents = [content for content in index.hashes if content and content in shards]

    def __len__(self) -> int:
        return len(self.contents)

    def __repr__(self) -> str:
        return (
            f"<DescriptorStore: {len(self)} of {len(self.index.manifest)} images described, "
            f"D={self.dim}, {self.dtype}, {self.model.get('model')}>"
        )

    @property
    def n_pending(self) -> int:
        """Images that no run has reached yet."""
        return len(set(self.missing) - set(self.skipped))

    @property
    def images(self) -> list[str]:
        """(m,) image names, as the manifest has them."""
        return self.manifest.images

    @property
    def places(self) -> NDArray[np.str_]:
        """(m,) place ids; an empty string where the place is not known."""
        return self.manifest.places

    @property
    def traversals(self) -> NDArray[np.str_]:
        """(m,) traversal names."""
        return self.manifest.traversals

    def vectors(
        self,
        rows: slice | Sequence[int] | Indices | NDArray[np.bool_] | None = None,
        dtype: DTypeLike = np.float32,
    ) -> Vectors:
        """Descriptors in the manifest's order, read through memory maps into one array.

        Parameters
        ----------
        rows : slice, indices or mask, optional
            Which rows; all by default. Slice after slice goes through more than fits in memory.
        dtype : dtype-like
            Of the result, whatever the store holds.
        """
        wanted = np.arange(len(self))[slice(None) if rows is None else rows]
        return self.shards.gather([self.contents[row] for row in wanted], dtype)

    def references(
        self, traversals: Iterable[str] | None = None, exclude: Iterable[str] = ()
    ) -> ReferenceSet:
        """Images with a known place, as references.

        Parameters
        ----------
        traversals : iterable of str, optional
            Use these traversals only.
        exclude : iterable of str
            Leave these traversals out.
        """
        stream = self.stream(traversals, exclude)
        return stream.take(np.arange(len(stream)))

    def stream(self, traversals: Iterable[str] | None = None, exclude: Iterable[str] = ()) -> ReferenceStream:
        """Return the same references, to be read a block at a time."""
        keep = self._of(self.chosen(traversals, exclude)) & (self.places != "")
        if not keep.any():
            raise InputError(
                f"{self.folder} has no image with a place in the traversals asked for; "
                f"it has the traversals {', '.join(self.manifest.traversal_names()) or '(none)'}"
            )
        rows, chosen = np.flatnonzero(keep), self.manifest.select(keep)
        groups = view_groups(chosen.places, chosen.traversals, chosen.camera, chosen.heading)
        return ReferenceStream(
            chosen.places,
            chosen.traversals,
            places_of(chosen),
            self.dim,
            lambda some: self.vectors(rows[some]),
            rows,
            groups,
        )

    def chosen(self, traversals: Iterable[str] | None = None, exclude: Iterable[str] = ()) -> list[str]:
        """Names of the chosen traversals, all by default, without `exclude`; unknown names are refused."""
        keep = self._of(self.manifest.traversal_names() if traversals is None else traversals)
        return list(dict.fromkeys(self.traversals[keep & ~self._of(exclude)].tolist()))

    def located(self, rows: Indices) -> tuple[NDArray[np.str_], Indices]:
        """File that holds the vector of each of some rows, and its row in there."""
        return self.shards.located([self.contents[row] for row in rows])

    def queries(self, traversal: str) -> Queries:
        """All images of one traversal, with or without a known place."""
        keep = self._of([traversal])
        return Queries(self.vectors(keep), self.places[keep], self.manifest.select(keep))

    def with_manifest(self, manifest: Manifest) -> DescriptorStore:
        """Return the same descriptors under the places, traversals and positions of `manifest`.

        Each of its images must be in the store, at the same path or under the same name. The files stay as
        they are; `store_writing.relabel` changes them.
        """
        return self.with_index(self.index.relabelled(manifest))

    def showing(self) -> DescriptorStore:
        """Return the same descriptors, with no place for images that show nothing (black, covered); reads no vectors.

        As references, every such picture would be found there. The files stay as they are.
        """
        blank = [content in self.shards.zero for content in self.index.hashes]
        if not any(blank):
            return self
        old = self.index.manifest
        manifest = Manifest(
            old.images, np.where(blank, "", old.places), old.traversals, old.root, **old.numbers
        )
        return self.with_index(replace(self.index, manifest=manifest))

    def with_index(self, index: StoreIndex) -> DescriptorStore:
        """Return the same descriptors under another index, without reading anything."""
        other = object.__new__(DescriptorStore)
        other._attach(self.folder, index, self.shards)
        return other

    def _of(self, traversals: Iterable[str]) -> NDArray[np.bool_]:
        """Mask of the rows in `traversals`."""
        wanted = [traversals] if isinstance(traversals, str) else list(traversals)
        check_known("traversal", wanted, self.manifest.traversal_names())
        return np.isin(self.traversals, np.array(wanted, dtype=np.str_))


def is_store(path: PathLike) -> bool:
    """Whether `path` is the folder of a descriptor store."""
    return (Path(path) / INDEX).is_file()
