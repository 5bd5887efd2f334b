"""Run a suite: every cell that is not there yet, one after the other, each on disk as soon as it is computed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from displace.datasets import DATASETS
from displace.descriptors.store import DescriptorStore, is_store
from displace.errors import InputError, UnknownNameError
from displace.evaluation.cells import Cell, compute
from displace.evaluation.loading import Split, store_digest
from displace.evaluation.record import Result
from displace.evaluation.results import Results
from displace.evaluation.suites import Suite
from displace.files.atomic import make_folder, write_whole
from displace.files.reading import PathLike, text_of
from displace.models import MODELS
from displace.progress import Progress
from displace.registry import unknown

logger = logging.getLogger(__name__)

COMMANDS = "commands.txt"
"""File beside the kept suites with the commands that were given."""


@dataclass(frozen=True)
class Outcome:
    """What a run of a suite did."""

    results: Results
    """The folder, with what other runs left there."""
    cells: list[Result]
    """The suite's own cells, computed now or before."""
    n_computed: int
    """Cells computed now."""
    absent: dict[str, Path]
    """Models whose descriptor store is not there, and where it should be."""
    seconds: float
    title: str = ""
    """The suite's."""

    @property
    def impossible(self) -> list[Result]:
        """Cells that could not be computed."""
        return [result for result in self.cells if not result.ok]


def run_suite(suite: Suite, output: PathLike, progress: Progress | None = None) -> Outcome:
    """Compute the cells of a suite that the results folder `output` does not have; `progress` counts them.

    Stopped or killed at any moment, it loses the running cell at most; run again, it goes on.
    """
    start = time.perf_counter()
    stores, absent = _open_stores(suite)
    results = Results(output)
    results.prepare()
    widest = max(store.dim for store in stores.values())
    if useless := [str(dim) for dim in suite.dims if dim >= widest]:
        logger.warning(
            "no random projection to %s dimensions, as the descriptors have %s",
            ", ".join(useless),
            f"{widest:,}",
        )
    cells = list(_cells(suite, stores))
    found = results.readable()
    run = 1 + max((result.used for result in found.values()), default=0)
    known = results.complete(found[cell.id] for cell in cells if cell.id in found)
    missing = [cell for cell in cells if cell.id not in known or known[cell.id].retry]
    report = progress or (lambda *_: None)
    report("cells", 0, len(missing))
    for done, (cell, result) in enumerate(_computed(missing, stores, results, run)):
        known[cell.id] = result
        report("cells", done + 1, len(missing))
    for cell in cells:
        if known[cell.id].used != run:
            # Tables follow the last run: its order, and its cells among others under the same names.
            known[cell.id] = replace(known[cell.id], order=list(cell.order), used=run)
            results.update(known[cell.id])
    _keep_suite(suite, results.folder)
    own = [known[cell.id] for cell in cells]
    return Outcome(results, own, len(missing), absent, time.perf_counter() - start, suite.title)


def _open_stores(suite: Suite) -> tuple[dict[str, DescriptorStore], dict[str, Path]]:
    """Stores that are there, and the paths of those that are not."""
    absent = {model: path for model, path in suite.stores.items() if not is_store(path)}
    if len(absent) == len(suite.stores):
        looked_at = "; ".join(f"{model}: {path}" for model, path in absent.items()) or "it names none"
        raise InputError(
            f"suite {suite.name} finds none of its descriptor stores ({looked_at}). Make one with displace extract, or "
            "say where they are with --store MODEL=PATH or --root FOLDER"
        )
    opened = {model: DescriptorStore(path) for model, path in suite.stores.items() if model not in absent}
    known = MODELS.names()
    for model, store in opened.items():
        made_by = store.model.get("model")
        if made_by != model and made_by in known and model in known:
            raise InputError(
                f"--store {model}={store.folder}: its descriptors were made by {made_by}. Give it as "
                f"{made_by}={store.folder}, or under a name that is no model's"
            )
    return opened, absent


def _cells(suite: Suite, stores: dict[str, DescriptorStore]) -> Iterator[Cell]:
    """All cells, those that share descriptors side by side."""
    for n_model, (model, store) in enumerate(stores.items()):
        record = {"path": str(store.folder), "model": store.model, "content": store_digest(store)}
        names = store.manifest.traversal_names()
        for n_query, query in enumerate(_queries(suite, store)):
            references = tuple(suite.protocol.references_for(query, names))
            methods = [row for method in suite.methods for row in method.rows(references)]
            for projection, seed in _projections(suite, store, query):
                for n_method, method in enumerate(methods):
                    yield Cell(
                        suite.dataset,
                        model,
                        query,
                        suite.protocol,
                        method,
                        references,
                        record,
                        projection,
                        seed,
                        suite.k,
                        (n_model, n_query, n_method),
                    )


def _queries(suite: Suite, store: DescriptorStore) -> Sequence[str]:
    """Traversals of a store that are asked; an error where the suite names some that the store does not have."""
    names, protocol = store.manifest.traversal_names(), suite.protocol
    for query in suite.queries:
        if query not in names:
            raise UnknownNameError(f"{store.folder}: {unknown('query traversal', query, names)}")
    # Of a known data set a part may be at hand; in a suite's own protocol, a name that is not there is misspelt.
    known = suite.dataset in DATASETS.names() and protocol in DATASETS.get(suite.dataset).protocols
    for name in () if known else (*protocol.queries, *protocol.references):
        if name not in names:
            raise UnknownNameError(f"{store.folder}: {unknown('traversal of the protocol', name, names)}")
    asked = suite.queries or protocol.queries_in(store.manifest)
    if not asked:
        raise InputError(
            f"{store.folder} has none of the queries of protocol {protocol.name!r} ({', '.join(protocol.queries)}); "
            f"it has the traversals {', '.join(names)}"
        )
    for name in suite.projected:
        if name not in asked:
            logger.warning("%s: no random projections, as %s", store.folder, unknown("query", name, asked))
    return asked


def _projections(suite: Suite, store: DescriptorStore, query: str) -> list[tuple[int | None, int]]:
    """Descriptors as they are, then every dimension below theirs with every seed."""
    wanted = not suite.projected or query in suite.projected
    smaller = [dim for dim in suite.dims if dim < store.dim and wanted]
    return [(None, 0), *((dim, seed) for dim in smaller for seed in suite.seeds)]


def _computed(
    cells: list[Cell], stores: dict[str, DescriptorStore], results: Results, run: int
) -> Iterator[tuple[Cell, Result]]:
    """Compute and keep cell after cell; descriptors are read once for the cells that share them."""
    for (model, query), asked in groupby(cells, key=lambda cell: (cell.model, cell.query)):
        same_question = list(asked)
        first = same_question[0]
        split = Split.of(stores[model], first.protocol, query, results.folder)
        name = results.add_questions(f"{first.dataset}-{query}", split.questions)
        for (projection, seed), group in groupby(
            same_question, key=lambda cell: (cell.projection, cell.seed)
        ):
            references = split.vectors(split.references, projection, seed)
            queries = split.vectors(split.queries, projection, seed)
            for cell in group:
                computed, ranking = compute(cell, split, references, queries, name)
                result = replace(computed, used=run)
                results.add(result, ranking)
                yield cell, result


def _keep_suite(suite: Suite, folder: Path) -> None:
    """Keep the suite's own text, and the command, beside its results, so that they can be repeated."""
    if suite.text:
        write_whole(make_folder(folder / "suites") / f"{suite.name}.toml", suite.text)
    if suite.command:
        kept = make_folder(folder / "suites") / COMMANDS
        known = text_of(kept, "a list of commands").splitlines() if kept.exists() else []
        if suite.command not in known:
            write_whole(kept, "\n".join([*known, suite.command, ""]))
