"""A Dask cluster: one of this machine's processes, or any that is running already."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from displace.errors import DisplaceError, InputError
from displace.registry import import_extra

LOCAL = "local"
PATIENCE = "30s"

logger = logging.getLogger(__name__)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a cluster and yield Dask's client; the address of its dashboard goes to the log.

    The address is "local" (a process for each core), "local:4" (four), or a scheduler such as "tcp://scheduler:8786".
    """
    distributed = import_extra("distributed", "cluster")
    kind, _, count = address.partition(":")
    if kind == LOCAL:
        n_workers = _n_workers(address, count)
        # One thread each, because workers compute with BLAS.
        cluster = distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0
        )
        with cluster, distributed.Client(cluster) as client:
            yield _announced(client)
        return
    if "://" not in address:
        raise InputError(
            f"cluster={address!r} must be local, local:N (processes of this machine), or a scheduler's address such as "
            "tcp://scheduler:8786"
        )
    try:
        client = distributed.Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise DisplaceError(
            f"no Dask scheduler answers at {address} ({error}); start one with: dask scheduler"
        ) from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise DisplaceError(
                f"the scheduler at {address} has no workers; start some with: dask worker {address} --nthreads 1"
            )
        yield _announced(client)


def _n_workers(address: str, count: str) -> int:
    if not count:
        return os.cpu_count() or 1
    if not count.isdecimal() or int(count) < 1:
        raise InputError(f"cluster={address!r}: after local: comes a number of processes, such as local:4")
    return int(count)


def _announced(client: Any) -> Any:
    if client.dashboard_link:
        logger.warning("dashboard of the cluster: %s", client.dashboard_link)
    return client
