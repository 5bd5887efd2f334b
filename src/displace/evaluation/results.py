"""Results: one JSON record for each cell of a table, with its raw ranking beside it.

A results folder::

    results/
      cells/robotcar-night-cosplace-hops-1f0c9a2b.json     the record
      cells/robotcar-night-cosplace-hops-1f0c9a2b.npz      its ranking (`Ranking`)
      questions/robotcar-night-6d1e8c0f33aa90b2.npz        what was asked (`Questions`), shared by cells
      suites/robotcar.toml                                 the suites that were run

The record is written last: where it is there, so was all the rest (`Results.complete` checks that it still is).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import Any

from displace.descriptors.store import is_store
from displace.errors import FormatError, InputError
from displace.evaluation.rankings import Questions, Ranking
from displace.evaluation.record import Result, cut, slug
from displace.files import schema
from displace.files.atomic import make_folder, write_json
from displace.files.reading import PathLike, file_stamp, read_json
from displace.registry import check_known

logger = logging.getLogger(__name__)

CELLS, QUESTIONS = "cells", "questions"


class Results:
    """The cells of a results folder, read one at a time; the folder is created when the first result is added.

    >>> results = Results.open("results/")                                   # doctest: +SKIP
    >>> for result in results.select(model="cosplace", query=["night", "rain"]):   # doctest: +SKIP
    ...     print(result.label, result.recalls[1])
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        self._filters: tuple[Callable[[Result], bool], ...] = ()
        self._records: dict[Path, tuple[tuple[int, int, int] | None, Result]] = {}
        """What was read, and of which file: it is read again where another has taken its place."""

    @classmethod
    def open(cls, folder: PathLike) -> Results:
        """Return the results in a folder that must have some."""
        results = cls(folder)
        if not any((results.folder / CELLS).glob("*.json")):
            raise InputError(f"{folder} {_instead(results.folder)}")
        return results

    def prepare(self) -> None:
        """Make the folder, or say why it cannot hold results: before a long computation, not after it."""
        if is_store(self.folder):
            raise InputError(
                f"{self.folder} is a descriptor store, results need a folder of their own: choose another with -o, "
                "such as -o results"
            )
        make_folder(self.folder / CELLS)

    def __iter__(self) -> Iterator[Result]:
        for path in sorted((self.folder / CELLS).glob("*.json")):
            result = self._record(path)
            if all(keep(result) for keep in self._filters):
                yield result

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<Results: {len(self):,} cells in {self.folder}>"

    def select(self, **wanted: Any) -> Results:
        """Return the results whose fields have these values, or one of those in a list; also ``ok=True``."""
        check_known("field", wanted, [*(item.name for item in fields(Result)), "ok"])

        def keep(result: Result) -> bool:
            return all(_matches(getattr(result, name), value) for name, value in wanted.items())

        chosen = Results(self.folder)
        chosen._filters, chosen._records = (*self._filters, keep), self._records
        return chosen

    def _record(self, path: Path) -> Result:
        stamp, known = file_stamp(path), self._records.get(path)
        if known is None or known[0] != stamp:
            known = self._records[path] = stamp, _read(path)
        return known[1]

    def readable(self) -> dict[str, Result]:
        """All results that can be read, by the hash of their cell; damaged ones are named in a warning."""
        found = {}
        for path in sorted((self.folder / CELLS).glob("*.json")):
            try:
                result = self._record(path)
            except FormatError as error:
                logger.warning("%s; the cell is computed again where the suite has it", error)
                continue
            found[result.cell] = result
        return found

    def complete(self, cells: Iterable[Result]) -> dict[str, Result]:
        """Cells whose ranking and questions can be read, by their hash."""
        opened: dict[str, bool] = {}

        def opens(result: Result) -> bool:
            if result.questions not in opened:
                opened[result.questions] = _loads(lambda: self.questions(result))
            return opened[result.questions] and (not result.ok or _loads(lambda: self.ranking(result)))

        return {result.cell: result for result in cells if opens(result)}

    def add(self, result: Result, ranking: Ranking | None) -> None:
        """Write one cell, impossible ones without a ranking; when this returns it survives any crash."""
        path = make_folder(self.folder / CELLS) / f"{result.name}.json"
        if ranking is not None:
            ranking.save(path.with_suffix(".npz"))
        self.update(result)

    def update(self, result: Result) -> None:
        """Write the record of a cell that is there; its ranking stays."""
        write_json(self.folder / CELLS / f"{result.name}.json", result.to_json())

    def add_questions(self, name: str, questions: Questions) -> str:
        """Write what is asked, unless all of it is there; return the file's name for `Result.questions`."""
        path = make_folder(self.folder / QUESTIONS) / f"{cut(slug(name))}-{questions.digest()}.npz"
        try:
            known = Questions.load(path)
        except FormatError:
            known = None
        if known is None or (known.query_order is None and questions.query_order is not None):
            questions.save(path)
        return path.name

    def ranking(self, result: Result) -> Ranking:
        """Read the raw ranking of a result that is `ok`."""
        if not result.ok:
            raise InputError(f"{result.name} has no ranking: {result.error}")
        path = self.folder / CELLS / f"{result.name}.npz"
        ranking = Ranking.load(path)
        n_queries, highest = len(ranking.places), int(ranking.places.max(initial=-1))
        # Records of before the counts have none.
        if result.n_places and (n_queries != result.n_queries or highest >= result.n_places):
            raise FormatError(
                f"{path} ranks {highest + 1} places for {n_queries} queries, its record has {result.n_places} and "
                f"{result.n_queries}; remove it and run the suite again"
            )
        return ranking

    def questions(self, result: Result) -> Questions:
        """Read what was asked."""
        path = self.folder / QUESTIONS / result.questions
        questions = Questions.load(path)
        counts = len(questions), len(questions.place_ids)
        if result.ok and result.n_places and counts != (result.n_queries, result.n_places):
            raise FormatError(
                f"{path} asks {len(questions)} queries of {len(questions.place_ids)} places, {result.name} has "
                f"{result.n_queries} of {result.n_places}; remove it and run the suite again"
            )
        return questions


def _instead(folder: Path) -> str:
    """Say what a folder without results is, and how to make some."""
    if is_store(folder):
        evaluate = f"displace evaluate {quote(str(folder))} -o results"
        return f"is a descriptor store, not a results folder; make one with: {evaluate}"
    what, name = "does not exist", quote(str(folder))
    if folder.is_file():
        what, name = "is a file, not a results folder", "results"
    elif folder.is_dir():
        what, name = "has no results", name if (folder / "cells").is_dir() else "results"
    return (
        f"{what}; make some with: displace evaluate STORE -o {name}, or of a whole suite with: "
        f"displace bench SUITE -o {name}"
    )


def _matches(value: Any, wanted: Any) -> bool:
    if (
        isinstance(wanted, Collection)
        and not isinstance(wanted, str | Mapping)
        and not isinstance(value, list)
    ):
        return value in wanted
    return bool(value == wanted)


def _loads(load: Callable[[], object]) -> bool:
    """Whether a file is there and whole."""
    try:
        load()
    except FormatError:
        return False
    return True


def _read(path: Path) -> Result:
    try:
        return Result.from_json(schema.mapping(read_json(path), "the record"))
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise FormatError(f"{path} cannot be read ({error}); remove it and run the suite again") from None
