"""`displace bench`."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from displace.progress import Progress
from displace.verbs.base import Argument, Option, PathLike, check_threads

if TYPE_CHECKING:
    from displace.evaluation.benchmark import Outcome

RESUMES = True
logger = logging.getLogger(__name__)


def bench(
    suite: Annotated[PathLike, Argument("SUITE")],
    output: Annotated[PathLike, Option("-o")] = "results",
    *,
    stores: Annotated[Mapping[str, PathLike] | None, Option("--store", metavar="MODEL=PATH")] = None,
    root: PathLike | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Compute the tables of a suite: data set, models, fusions, queries.

    Each cell is saved as soon as it is computed. If it is interrupted, run it again: only missing cells are computed.

    Parameters
    ----------
    suite : path-like
        A TOML file, or nordland, robotcar, pittsburgh30k, gldv2_micro, town, town_drives or sped400.
    output : path-like
        Results folder.
    stores : mapping of str to path-like, optional
        Stores of models' descriptors, in place of or in addition to those of the suite.
    root : path-like, optional
        Folder of the suite's descriptor stores; by default the suite file's.
    threads : int, optional
        Cores to use; by default all. Times are most stable with 1.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace bench suites/robotcar.toml -o results/
        displace bench robotcar --root descriptors -o results
        displace bench nordland --store cosplace=nordland.desc
        displace bench my_suite.toml -o results
    """
    from displace.evaluation.benchmark import run_suite
    from displace.evaluation.suites import Suite, shipped_for
    from displace.threads import limit_threads

    check_threads(threads)
    shipped = shipped_for(suite)
    if shipped is not None and shipped != str(suite):
        logger.warning("there is no file %s: using the suite %s that comes with the package", suite, shipped)
    given = [] if root is None else ["--root", str(root)]
    given += [part for model, path in (stores or {}).items() for part in ("--store", f"{model}={path}")]
    read = replace(
        Suite.read(suite, root).with_stores(stores or {}),
        command=shlex.join(["displace", "bench", str(suite), *given, "-o", str(output)]),
    )
    with limit_threads(threads):
        return run_suite(read, output, progress)
