"""Describing images on a cluster: workers get file names and return vectors to the only writer of the store."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np

from displace.descriptors.extraction import Describer, Part, describe
from displace.models.base import DescriptorModel

FILES_AT_ONCE = 64


def describer_on(client: Any, make: Callable[[], DescriptorModel], batch_size: int = 16) -> Describer:
    """Return a describer for `extract(describer=…)` that uses the workers of a Dask cluster; each makes one model."""

    def describer(files: list[tuple[str, str]]) -> Generator[Part[str]]:
        from distributed import as_completed

        # Workers have other folders.
        files = [(content, str(Path(path).absolute())) for content, path in files]
        chunks = [files[start : start + FILES_AT_ONCE] for start in range(0, len(files), FILES_AT_ONCE)]
        futures = [client.submit(described, chunk, make, batch_size, pure=False) for chunk in chunks]
        for _, result in as_completed(futures, with_results=True):
            yield result

    return describer


def described(
    files: list[tuple[str, str]], make: Callable[[], DescriptorModel], batch_size: int
) -> Part[str]:
    """Describe some files; runs on a worker."""
    failures: dict[int, str] = {}
    model = _model_of_worker(make)
    paths = [path for _, path in files]
    vectors = describe(model, paths, workers=1, batch_size=batch_size, failures=failures)
    good = np.array([row not in failures for row in range(len(files))], bool)
    contents = [content for (content, _), fine in zip(files, good, strict=True) if fine]
    return contents, vectors[good], {files[row][0]: why for row, why in failures.items()}


def _model_of_worker(make: Callable[[], DescriptorModel]) -> DescriptorModel:
    """Make the model once on each worker."""
    from distributed import get_worker

    worker = get_worker()
    models = worker.__dict__.setdefault("displace_models", {})
    key = repr(make)
    if key not in models:
        models[key] = make()
    model: DescriptorModel = models[key]
    return model
