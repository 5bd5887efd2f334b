"""Suites: what a benchmark computes, as a TOML file.

::

    title = "Recall@1 on my route"
    dataset = "robotcar"                  # a known data set, or any name together with a [protocol]
    protocol = "robotcar-5"               # by default the data set's first one
    queries = ["night", "rain"]           # by default every traversal in turn
    sequence = ["single_frame", "smoother"]  # optional: each method once for each, along the drive of the queries
    adapt = ["none", "batch"]             # optional: and once for each
    k = 20                                # places kept of each ranking, by default 10

    [stores]                              # model = descriptor store, relative to this file
    cosplace = "cosplace.desc"

    [[methods]]
    fusion = "displace"
    label = "DisPlace (paper)"
    parameters = { ridge = 0.0, center = false }

    [random_projection]                   # optional: also at these dimensions, once for each seed
    dims = [64, 128]
    seeds = [0, 1, 2]
    queries = ["night"]                   # by default all
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from displace.arrays import check_count, plain
from displace.datasets import DATASETS
from displace.datasets.base import Protocol
from displace.errors import DisplaceError, InputError, UnknownNameError
from displace.evaluation.methods import ALONE, Method, method_of
from displace.files.reading import PathLike, read_text
from displace.registry import check_known, unknown
from displace.truth import Tolerance

MAX_SUITE = 2**20
"""Bytes of a suite's file."""
MAX_SEED = 2**32 - 1
KEYS = (
    *("title", "dataset", "protocol", "queries", "k", "stores", "methods", "random_projection"),
    *("sequence", "adapt"),
)
"""Of a suite's file."""
SHIPPED = files("displace.evaluation") / "data" / "suites"


@dataclass(frozen=True)
class Suite:
    """The cells of one or several tables: models × queries × methods (× random projections × seeds)."""

    name: str
    title: str
    dataset: str
    protocol: Protocol
    methods: tuple[Method, ...]
    stores: dict[str, Path] = field(default_factory=dict)
    """Descriptor store of each model."""
    queries: tuple[str, ...] = ()
    """Query traversals; empty for those of the protocol."""
    dims: tuple[int, ...] = ()
    seeds: tuple[int, ...] = (0,)
    """Dimensions and seeds of random projections, beside the descriptors as they are."""
    projected: tuple[str, ...] = ()
    """Query traversals that have random projections; empty for all."""
    k: int = 10
    """Places kept of each ranking."""
    text: str = ""
    """The file's content, kept beside the results."""
    command: str = ""
    """The command that does the same; kept too."""

    def __post_init__(self) -> None:
        labels = [method.label for method in self.methods if not method.each_reference]
        if twice := {label for label in labels if labels.count(label) > 1}:
            raise InputError(
                f"two methods are called {', '.join(sorted(twice))}; give each its own label in [[methods]], "
                "or a fusion of your own another title"
            )
        if not self.methods:
            raise InputError("the suite has no methods; add at least one [[methods]] table")
        for name, values in (("queries", self.queries), ("[random_projection] queries", self.projected)):
            _check_list(name, values, "names of traversals", lambda value: isinstance(value, str))
        check_count(self.k, "k")
        for name in ("k", "dims", "seeds"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        _check_list("dims", self.dims, "whole numbers of at least 1", lambda value: _whole(value, 1))
        _check_list(
            "seeds",
            self.seeds,
            f"whole numbers from 0 to {MAX_SEED}",
            lambda value: _whole(value, 0, MAX_SEED),
        )
        if self.dims and not self.seeds:
            raise InputError("seeds is empty; give at least one for the random projections")

    @classmethod
    def read(cls, source: PathLike, root: PathLike | None = None) -> Suite:
        """Read a TOML file, or the suite of that name that comes with the package (`shipped_for`).

        Its descriptor stores are relative to `root`; by default to the file's folder, or to the present one for a suite
        of the package.
        """
        path, shipped = Path(source), shipped_for(source)
        if shipped is not None:
            text, folder = (SHIPPED / f"{shipped}.toml").read_text("utf-8"), Path()
        elif path.is_file():
            text, folder = _text_of(path), path.parent
        else:
            raise UnknownNameError(
                f"no file {source}, and " + unknown("suite", str(source), shipped_suites())
            )
        try:
            parsed = _parse(tomllib.loads(text), path.stem, folder if root is None else Path(root))
            return replace(parsed, text=text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(f"{source} is not TOML: {error}") from None
        except DisplaceError as error:
            raise InputError(f"suite {source}: {error}") from None
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise InputError(
                f"suite {source} has a value of another kind than is asked for: {error}"
            ) from None

    def with_stores(self, stores: Mapping[str, PathLike]) -> Suite:
        """Return the suite with these models' stores replaced or added."""
        return replace(self, stores=self.stores | {model: Path(path) for model, path in stores.items()})


def _text_of(path: Path) -> str:
    try:
        return read_text(path, MAX_SUITE)
    except UnicodeDecodeError:
        raise InputError(f"suite {path} is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"cannot read suite {path}: {error.strerror or error}") from None


def shipped_suites() -> list[str]:
    """Names of the suites that come with the package."""
    return sorted(
        entry.name.removesuffix(".toml") for entry in SHIPPED.iterdir() if entry.name.endswith(".toml")
    )


def shipped_for(source: PathLike) -> str | None:
    """Name of the package's suite that stands in for `source`; None where that is a file, or no suite has its name.

    >>> shipped_for("robotcar"), shipped_for("suites/robotcar.toml"), shipped_for("mine.toml")
    ('robotcar', 'robotcar', None)
    """
    path = Path(source)
    name = path.stem if path.suffix == ".toml" else str(source)
    return name if name in shipped_suites() and not path.is_file() else None


def find_protocol(name: str) -> tuple[str, Protocol]:
    """Return the data set's name and the protocol of a protocol's name, among all data sets."""
    known = {
        protocol.name: (dataset, protocol)
        for dataset, entry in DATASETS.usable().items()
        for protocol in entry.protocols
    }
    check_known("protocol", [name], known)
    return known[name]


def _parse(record: dict[str, Any], name: str, folder: Path) -> Suite:
    """Return the suite of a file's content."""
    check_known("key", record, KEYS)
    dataset = _typed(record, "dataset", str, None)
    projection = _typed(record, "random_projection", dict, {})
    check_known("key", projection, ("dims", "seeds", "queries"))
    return Suite(
        name,
        _typed(record, "title", str, name),
        dataset,
        _protocol(record.get("protocol"), dataset),
        tuple(
            method_of({"sequence": sequence, "adapt": mode, **row})
            for row in _typed(record, "methods", list, [])
            for sequence in _typed(record, "sequence", list, [ALONE])
            for mode in _typed(record, "adapt", list, ["none"])
        ),
        {model: folder / path for model, path in _typed(record, "stores", dict, {}).items()},
        tuple(_typed(record, "queries", list, [])),
        tuple(_typed(projection, "dims", list, [])),
        tuple(_typed(projection, "seeds", list, [0])),
        tuple(_typed(projection, "queries", list, [])),
        _typed(record, "k", int, 10),
    )


def _protocol(value: Any, dataset: str) -> Protocol:
    """Return a known data set's protocol by name, or one that the file defines."""
    if value is None or isinstance(value, str):
        if dataset not in DATASETS.names():
            raise UnknownNameError(
                f"{unknown('data set', dataset, DATASETS.names())}; data of your own need a protocol of their own: "
                'protocol = { name = "mine, 10 m", tolerance = "10m" }'
            )
        return DATASETS.get(dataset)().protocol(value)
    if not isinstance(value, dict):
        raise InputError(f"protocol={value!r} must be a name or a table")
    check_known("key", value, ("name", "tolerance", "queries", "references"))
    tolerance = Tolerance.parse(_typed(value, "tolerance", str, "exact"))
    return Protocol(
        _typed(value, "name", str, f"{dataset}, {tolerance}"),
        tolerance,
        tuple(_typed(value, "queries", list, [])),
        tuple(_typed(value, "references", list, [])),
    )


def _check_list(name: str, values: Sequence[Any], what: str, fits: Callable[[Any], bool]) -> None:
    """Raise an error where a value is of another kind, or stands twice: it would be computed twice."""
    for at, value in enumerate(values):
        if not fits(value):
            raise InputError(f"{name} has {value!r}, and must be {what}")
        if value in values[:at]:
            raise InputError(f"{name} has {value!r} twice; write it once")


def _whole(value: Any, least: int, most: float = float("inf")) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _typed(record: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    """Value of a key, checked; a key without a default must be there."""
    value = record.get(key, default)
    if value is None:
        raise InputError(f"the key '{key}' is missing")
    if not isinstance(value, kind):
        raise InputError(f"{key}={value!r} must be of type {kind.__name__}")
    return value
