"""References of several stores at once: a route's first recordings, and those that were described later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np

from displace.arrays import Indices, Vectors
from displace.descriptors.store import DescriptorStore
from displace.errors import InputError, ModelMismatchError
from displace.models import differences, model_name
from displace.places import Places
from displace.references import ReferenceStream
from displace.registry import check_known


def joined(
    stores: Sequence[DescriptorStore], traversals: Iterable[str] | None = None, exclude: Iterable[str] = ()
) -> ReferenceStream:
    """Images of several stores with a known place, as references.

    The stores are of one model, and equal place ids are equal places: they were assigned to the places of one map or
    manifest. `traversals` and `exclude` are as in `DescriptorStore.stream`.
    """
    holders: dict[str, DescriptorStore] = {}
    for store in stores:
        _check_alike(stores[0], store)
        for name in store.manifest.traversal_names():
            if name in holders:
                raise InputError(
                    f"traversal {name!r} is in {holders[name].folder} and in {store.folder}: a recording counts once"
                )
            holders[name] = store
    check_known("traversal", [*(traversals or ()), *exclude], list(holders))
    chosen = [name for name in (holders if traversals is None else traversals) if name not in {*exclude}]
    streams = [
        store.stream(own)
        for store in stores
        if (own := [name for name in chosen if holders[name] is store]) and _placed(store, own)
    ]
    if not streams:
        raise InputError("no image of the traversals asked for has a place")
    if any(stream.groups is not None for stream in streams):
        raise InputError(
            "stores that tell views of a place apart (camera, heading) cannot be joined: put the rows of their "
            "manifests into one, and describe that"
        )
    starts = np.cumsum([0, *map(len, streams)])

    def read(rows: Indices) -> Vectors:
        bounds = np.searchsorted(rows, starts)
        return np.concatenate(
            [
                stream.read(rows[first:last] - start)
                for stream, start, first, last in zip(streams, starts, bounds, bounds[1:], strict=False)
                if last > first
            ]
        )

    return ReferenceStream(
        np.concatenate([stream.places for stream in streams]),
        np.concatenate([stream.traversals for stream in streams]),
        reduce(_known_of_both, [stream.info for stream in streams]),
        streams[0].dim,
        read,
    )


def _placed(store: DescriptorStore, traversals: Sequence[str]) -> bool:
    return bool((np.isin(store.traversals, np.array(traversals)) & (store.places != "")).any())


def _check_alike(first: DescriptorStore, store: DescriptorStore) -> None:
    if differences(first.model, store.model):
        raise ModelMismatchError(
            f"{first.folder} was described by {model_name(first.model)}, {store.folder} by {model_name(store.model)} "
            "or with other settings: describe the images of one anew"
        )


def _known_of_both(places: Places, others: Places) -> Places:
    units = {known.positions.degrees for known in (places, others) if known.positions is not None}
    if len(units) > 1:
        raise InputError("one store has latitude and longitude, another metres: convert one of the two")
    return places.updated(np.union1d(places.ids, others.ids), others)
