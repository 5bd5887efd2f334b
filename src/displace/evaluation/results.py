"""Results: one JSON record for each cell of a table, with its raw ranking beside it.

A results folder::

    results/
      cells/robotcar-night-cosplace-hops-1f0c9a2b.json     the record
      cells/robotcar-night-cosplace-hops-1f0c9a2b.npz      its ranking (`Ranking`)
      questions/robotcar-night-6d1e8c0f33aa90b2.npz        what was asked (`Questions`), shared by cells
      suites/robotcar.toml                                 the suites that were run

The record is written last: where it is there, the cell is complete.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from displace.errors import FormatError, InputError, UnknownNameError
from displace.evaluation.rankings import Questions, Ranking
from displace.registry import unknown
from displace.storage import write_json

__all__ = ["FORMAT", "Questions", "Ranking", "Result", "Results"]

FORMAT = 1
CELLS, QUESTIONS = "cells", "questions"


@dataclass(frozen=True)
class Result:
    """What one method reached with one model on one query traversal.

    Parameters
    ----------
    cell : str
        Hash of everything that determines the ranking.
    dataset, protocol, tolerance : str
        Such as "robotcar", "robotcar-5", "±5 frames".
    model : str
        Name of the descriptor model.
    fusion : str
        Registry name.
    parameters : dict
        Of the fusion, where they differ from its defaults.
    label : str
        Name of the method in tables, such as "DisPlace (paper)".
    group : {"single", "score", "descriptor"}
        Where the method stands in tables.
    query : str
        Query traversal.
    references : list of str
        Reference traversals.
    dim : int
        Dimension of the descriptors that the method was given.
    projection : int or None
        Where the descriptors were projected at random before, to how many dimensions (then equal to `dim`).
    seed : int
        Of that projection.
    order : list of int
        Position of model, query and method in the suite, for tables.
    questions : str
        Name of the file of `Questions`.
    n_places, n_references, n_queries : int
    n_unanswerable : int
        Queries without a correct place in the map; they count as misses.
    recalls : dict of int to float
        Recall@N in percent, by N; empty where the cell was impossible.
    seconds : dict of str to float
        "fit" and "rank" (all queries), wall time.
    n_bytes : int
        To store for locating, as float32.
    n : int
        Length of a stored vector.
    explanation : str
        What the method says about its settings; may be empty.
    error : str
        Why the cell could not be computed; empty where it was.
    retry : bool
        Whether that was not to be expected from the data, so that the next run tries again.
    created : str
        When, in UTC (ISO 8601).
    versions : dict of str to str
        Of displace, numpy, scipy, scikit-learn and Python; the machine's platform, and the threads used.
    store : dict
        Descriptor store: its path as given, the model's fingerprint and a hash of the content.
    """

    cell: str
    dataset: str
    protocol: str
    tolerance: str
    model: str
    fusion: str
    parameters: dict[str, Any]
    label: str
    group: str
    query: str
    references: list[str]
    dim: int
    projection: int | None = None
    seed: int = 0
    order: list[int] = field(default_factory=lambda: [0, 0, 0])
    questions: str = ""
    n_places: int = 0
    n_references: int = 0
    n_queries: int = 0
    n_unanswerable: int = 0
    recalls: dict[int, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    n_bytes: int = 0
    n: int = 0
    explanation: str = ""
    error: str = ""
    retry: bool = False
    created: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the cell could be computed."""
        return not self.error

    @property
    def name(self) -> str:
        """Readable name of the cell's files."""
        parts = [self.dataset, self.query, self.model, self.label]
        if self.projection is not None:
            parts += [f"{self.projection}d", f"s{self.seed}"]
        return "-".join([*(slug(part) for part in parts), self.cell[:8]])

    def to_json(self) -> dict[str, Any]:
        """Return a record of plain types; `from_json` is its opposite."""
        record = {"format": FORMAT, **asdict(self)}
        record["recalls"] = {str(k): value for k, value in self.recalls.items()}
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Result:
        """Return the result of a record of this or any earlier format."""
        version = record.get("format")
        if not isinstance(version, int) or version > FORMAT:
            raise FormatError(
                f"format={version!r} of the result is not one of 1 to {FORMAT}, which this version reads: "
                "pip install -U displace"
            )
        known = {item.name for item in fields(cls)}
        values = {name: value for name, value in record.items() if name in known}
        values["recalls"] = {int(k): float(value) for k, value in record.get("recalls", {}).items()}
        return cls(**values)


class Results:
    """The cells of a results folder, read one at a time.

    Parameters
    ----------
    folder : path-like
        Created when the first result is added.

    Examples
    --------
    >>> results = Results.open("results/")                                   # doctest: +SKIP
    >>> for result in results.select(model="cosplace", query=["night", "rain"]):   # doctest: +SKIP
    ...     print(result.label, result.recalls[1])
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._filters: tuple[Callable[[Result], bool], ...] = ()

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Results:
        """Return the results in a folder that must have some."""
        results = cls(folder)
        if not any((results.folder / CELLS).glob("*.json")):
            what = "has no results" if results.folder.is_dir() else "does not exist"
            raise InputError(f"{folder} {what}; make some with: displace bench SUITE -o {folder}")
        return results

    def __iter__(self) -> Iterator[Result]:
        for path in sorted((self.folder / CELLS).glob("*.json")):
            result = _read(path)
            if all(keep(result) for keep in self._filters):
                yield result

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def select(self, **wanted: Any) -> Results:
        """Return the results whose fields have these values.

        Parameters
        ----------
        **wanted
            Field = value, or a list, tuple or set of values any of which will do; also ``ok=True``.
        """
        known = [*(item.name for item in fields(Result)), "ok"]
        for name in wanted:
            if name not in known:
                raise UnknownNameError(unknown("field", name, known))

        def keep(result: Result) -> bool:
            return all(_matches(getattr(result, name), value) for name, value in wanted.items())

        chosen = Results(self.folder)
        chosen._filters = (*self._filters, keep)
        return chosen

    def cells(self) -> dict[str, Result]:
        """All results by the hash of their cell."""
        return {result.cell: result for result in self}

    def add(self, result: Result, ranking: Ranking | None) -> None:
        """Write one cell; when this returns it survives any crash.

        Parameters
        ----------
        result : Result
        ranking : Ranking or None
            None for a cell that was impossible.
        """
        (self.folder / CELLS).mkdir(parents=True, exist_ok=True)
        path = self.folder / CELLS / f"{result.name}.json"
        if ranking is not None:
            ranking.save(path.with_suffix(".npz"))
        self.update(result)

    def update(self, result: Result) -> None:
        """Write the record of a cell that is there; its ranking stays."""
        write_json(self.folder / CELLS / f"{result.name}.json", result.to_json())

    def add_questions(self, name: str, questions: Questions) -> str:
        """Write what is asked, unless it is there; return the file's name for `Result.questions`."""
        (self.folder / QUESTIONS).mkdir(parents=True, exist_ok=True)
        path = self.folder / QUESTIONS / f"{slug(name)}-{questions.digest()}.npz"
        if not path.exists():
            questions.save(path)
        return path.name

    def ranking(self, result: Result) -> Ranking:
        """Read the raw ranking of a result that is `ok`."""
        if not result.ok:
            raise InputError(f"{result.name} has no ranking: {result.error}")
        return Ranking.load(self.folder / CELLS / f"{result.name}.npz")

    def questions(self, result: Result) -> Questions:
        """Read what was asked."""
        return Questions.load(self.folder / QUESTIONS / result.questions)


def slug(text: str) -> str:
    """Text as part of a file name.

    >>> slug("DisPlace (paper)"), slug("Std. dMat. Min.")
    ('displace_paper', 'std_dmat_min')
    """
    return re.sub(r"\W+", "_", text.lower()).strip("_") or "_"


def _matches(value: Any, wanted: Any) -> bool:
    if (
        isinstance(wanted, Collection)
        and not isinstance(wanted, str | Mapping)
        and not isinstance(value, list)
    ):
        return value in wanted
    return bool(value == wanted)


def _read(path: Path) -> Result:
    try:
        return Result.from_json(json.loads(path.read_text("utf-8")))
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise FormatError(f"{path} cannot be read ({error}); remove it and run the suite again") from None
