"""The record of one cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, TypeVar, get_type_hints

from displace.errors import FormatError
from displace.evaluation.methods import GROUPS
from displace.files import schema

Key = TypeVar("Key")
FORMAT = 1
LONGEST_NAME = 200
"""Bytes of a file's name without its hash, above which its parts are cut; file systems take 255."""


@dataclass(frozen=True)
class Result:
    """What one method reached with one model on one query traversal."""

    cell: str
    """Hash of everything that determines the ranking."""
    dataset: str
    protocol: str
    tolerance: str
    """Data set, protocol and tolerance, such as "robotcar", "robotcar-5", "±5 frames"."""
    model: str
    """Name of the descriptor model."""
    fusion: str
    """Registry name."""
    parameters: dict[str, Any]
    """Of the fusion, where they differ from its defaults."""
    label: str
    """Name of the method in tables, such as "DisPlace (paper)"."""
    group: str
    """Where the method stands in tables: "single", "score" or "descriptor"."""
    query: str
    """Query traversal."""
    references: list[str]
    """Reference traversals."""
    dim: int
    """Dimension of the descriptors that the method was given."""
    sequence: str = ""
    adapt: str = ""
    """How the queries were ranked as a drive or a batch; empty where each was ranked for itself."""
    projection: int | None = None
    """Where the descriptors were projected at random before, to how many dimensions (then equal to `dim`)."""
    seed: int = 0
    """Of that projection."""
    order: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Position of model, query and method in the suite, for tables."""
    questions: str = ""
    """Name of the file of `Questions`."""
    n_places: int = 0
    n_references: int = 0
    n_queries: int = 0
    n_unanswerable: int = 0
    """Queries without a correct place in the map; they count as misses."""
    recalls: dict[int, float] = field(default_factory=dict)
    """Recall@N in percent, by N; empty where the cell was impossible."""
    seconds: dict[str, float] = field(default_factory=dict)
    """"fit" and "rank" (all queries), wall time."""
    n_bytes: int = 0
    """To store for locating, as float32."""
    n: int = 0
    """Length of a stored vector."""
    explanation: str = ""
    """What the method says about its settings; may be empty."""
    error: str = ""
    """Why the cell could not be computed; empty where it was."""
    retry: bool = False
    """Whether the error was unexpected, a fault rather than unsuitable data, so that the next run tries again."""
    created: str = ""
    """When it was computed, in UTC (ISO 8601)."""
    used: int = 0
    """Number of the last run in this folder whose suite has the cell, computed or found there; 0 where runs were not
    yet counted."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of displace, numpy, scipy, scikit-learn and Python; the machine's platform, and the threads used."""
    store: dict[str, Any] = field(default_factory=dict)
    """Descriptor store: its path as given, the model's fingerprint and a hash of the content."""

    @property
    def ok(self) -> bool:
        """Whether the cell could be computed."""
        return not self.error

    @property
    def rule(self) -> str:
        """What counts as right (`rule_text`)."""
        return rule_text(self.protocol, self.tolerance)

    @property
    def nothing_to_fuse(self) -> bool:
        """Whether every place has one reference: all fusions are plain retrieval then."""
        return 0 < self.n_places == self.n_references

    @property
    def along(self) -> tuple[str, str]:
        """Sequence method and adaptation, empty if each query is ranked by itself; only equal ones are compared."""
        return self.sequence, self.adapt

    @property
    def basis(self) -> tuple[str, list[str]]:
        """What methods must share to be compared: the content of the descriptor store, and the references."""
        return str(self.store.get("content", "")), sorted(self.references)

    @property
    def recency(self) -> tuple[int, str, str]:
        """Sort key by the last run that had the cell: of several cells with the same names, the last one counts."""
        return self.used, self.created, self.cell

    @property
    def name(self) -> str:
        """Readable name of the cell's files."""
        parts = [self.dataset, self.query, self.model, self.label]
        if self.projection is not None:
            parts += [f"{self.projection}d", f"s{self.seed}"]
        name = "-".join(slug(part) for part in parts)
        if len(name.encode()) > LONGEST_NAME:
            name = "-".join(cut(slug(part), 40) for part in parts)
        return f"{name}-{self.cell[:8]}"

    def to_json(self) -> dict[str, Any]:
        """Return a record of plain types; `from_json` is its opposite."""
        record = {"format": FORMAT, **asdict(self)}
        record["recalls"] = {str(k): value for k, value in self.recalls.items()}
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Result:
        """Return the result of a record of this or any earlier format."""
        version = record.get("format")
        if not isinstance(version, int) or isinstance(version, bool) or version > FORMAT:
            raise FormatError(
                f"format={version!r} of the result is not one of 1 to {FORMAT}, which this version reads: "
                "pip install -U displace"
            )
        result = cls(**{name: _checked(name, value) for name, value in record.items() if name in _KINDS})
        if result.ok:  # tables and pages show these
            schema.require(1 in result.recalls, "recalls have no 1")
            schema.mapping(result.seconds, "seconds", has=("fit", "rank"))
        return result


_KINDS = get_type_hints(Result)
"""Types of the fields, looked up once for the thousands of records of a folder."""


def _checked(name: str, value: Any) -> Any:
    """Value of a field, which must be of its kind; whole numbers are counts."""
    if _KINDS[name] is str:
        text = schema.text(value, name)
        # These two name files beside the record.
        named = name not in ("cell", "questions") or "/" not in text
        schema.require(named and (name != "group" or text in GROUPS), f"{name} is {schema.shown(text)}")
        return text
    if _KINDS[name] is int:
        return schema.whole(value, name)
    match name:
        case "projection":
            return None if value is None else schema.whole(value, name, 1)
        case "retry":
            schema.require(isinstance(value, bool), f"retry is {schema.shown(value)}")
            return value
        case "order":
            return schema.listed(value, name, schema.whole, n=3)
        case "references":
            return schema.listed(value, name, schema.text)
        case "recalls":
            return {int(k): schema.number(v, name, 0, 100) for k, v in schema.mapping(value, name).items()}
        case "seconds":
            return schema.mapping(value, name, lambda v, n: schema.number(v, n, 0))
        case "versions":
            return schema.mapping(value, name, schema.text)
    return schema.mapping(value, name)


NOTHING_TO_FUSE = (
    "one reference a place, so that there is nothing to fuse and all fusions are plain retrieval"
)


def grouped(cells: Iterable[Result], key: Callable[[Result], Key]) -> dict[Key, list[Result]]:
    """Cells by what they have in common, in the order in which it appears."""
    groups: dict[Key, list[Result]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


def of_last_runs(cells: Iterable[Result]) -> list[Result]:
    """Cells that may stand beside each other in a table: the latest of each name, all from the same data.

    Of cells with the same names but other settings, the one of the latest run is kept. Of those, cells whose
    descriptors or references differ from the ones in the latest run of their model and query are dropped.
    """
    kept: dict[Any, Result] = {}
    basis: dict[Any, Any] = {}
    for cell in sorted(cells, key=lambda cell: cell.recency):
        column = cell.model, cell.query
        kept[column, cell.group, cell.label, cell.projection, cell.seed] = cell
        basis[column] = cell.basis
    return [cell for cell in kept.values() if cell.basis == basis[cell.model, cell.query]]


@dataclass(frozen=True)
class Effort:
    """What a method costs: medians over its cells."""

    dims: float
    """Length of a stored vector."""
    n_bytes: float
    """To store for locating, as float32."""
    seconds: float
    milliseconds: float
    """To fit, and to rank one of many queries."""

    @classmethod
    def of(cls, results: Sequence[Result]) -> Effort:
        """Return the effort of cells that could be computed."""
        return cls(
            median(result.n for result in results),
            median(result.n_bytes for result in results),
            median(result.seconds["fit"] for result in results),
            median(1000 * result.seconds["rank"] / max(1, result.n_queries) for result in results),
        )


def rule_text(protocol: str, tolerance: str) -> str:
    """What counts as right, said once.

    >>> rule_text("robotcar-5", "±5 frames"), rule_text("±2 frames, each against all others", "±2 frames")
    ('robotcar-5: ±5 frames', '±2 frames, each against all others')
    """
    return protocol if tolerance in protocol else f"{protocol}: {tolerance}"


def slug(text: str) -> str:
    """Text as part of a file name.

    >>> slug("DisPlace (paper)"), slug("Std. dMat. Min.")
    ('displace_paper', 'std_dmat_min')
    """
    return re.sub(r"\W+", "_", text.lower()).strip("_") or "_"


def cut(text: str, n_bytes: int = LONGEST_NAME) -> str:
    """Return the beginning of a name of a file, of at most so many bytes."""
    return text.encode()[:n_bytes].decode(errors="ignore")
