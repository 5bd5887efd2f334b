"""Studies on disk: one JSON file each, in the folder ``studies`` of the results."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from displace.arrays import plain
from displace.errors import FormatError
from displace.evaluation.record import LONGEST_NAME, Result, cut
from displace.evaluation.studies.compression import Compression
from displace.evaluation.studies.cost import Cost
from displace.evaluation.studies.qualitative import Qualitative
from displace.evaluation.studies.space import Space
from displace.evaluation.studies.tau import TauAblation
from displace.files import schema
from displace.files.atomic import make_folder, write_json
from displace.files.reading import PathLike, read_json

logger = logging.getLogger(__name__)

FORMAT = 1
FOLDER = "studies"
Study = Compression | TauAblation | Qualitative | Space | Cost
KINDS: dict[str, type[Study]] = {
    "compression": Compression,
    "tau": TauAblation,
    "qualitative": Qualitative,
    "space": Space,
    "cost": Cost,
}
"""Name of each study, in the order of a report."""


def kind_of(study: Study) -> str:
    """Return the name of a study."""
    return next(name for name, kind in KINDS.items() if isinstance(study, kind))


def about(study: Study) -> str:
    """What the numbers of a study are about, in a line."""
    return study.about if isinstance(study, TauAblation) else str(study.setting)


def topic_of(study: Study) -> tuple[str, ...]:
    """Return what a study is about: its kind, data set, protocol, model and query traversal, and how it projects.

    A results folder keeps one study of each topic.
    """
    names = study.setting
    after = isinstance(study, Compression) and study.after_fusion
    return topic(kind_of(study), names.dataset, names.protocol, names.model, names.query, after_fusion=after)


def topic(kind: str, *names: str, after_fusion: bool = False) -> tuple[str, ...]:
    """Return the topic of a study that is not there yet."""
    return (kind, *names, "after fusion") if kind == "compression" and after_fusion else (kind, *names)


def study_path(folder: PathLike, kind: str, *names: str) -> Path:
    """Return the file of a study of some data in the results folder, readable and the same each time.

    >>> study_path("results", "tau", "town", "hog", "night").as_posix()
    'results/studies/tau-town-hog-night.json'
    """
    parts = [re.sub(r"[^\w.]+", "_", name) for name in names]
    if len("-".join(parts).encode()) > LONGEST_NAME:
        parts = [*(cut(part, 40) for part in parts), hashlib.sha256("-".join(names).encode()).hexdigest()[:8]]
    return Path(folder) / FOLDER / f"{kind}-{'-'.join(parts)}.json"


def save_study(study: Study, path: PathLike) -> None:
    """Write a study as JSON, atomically."""
    make_folder(Path(path).parent)
    write_json(path, {"format": FORMAT, "study": kind_of(study), **plain(asdict(study))})


def replace_study(study: Study, path: PathLike) -> None:
    """Write a study, and remove others of the same topic: they are of earlier descriptors, settings or methods."""
    save_study(study, path)
    for other in Path(path).parent.glob(f"{kind_of(study)}-*.json"):
        if other != Path(path) and topic_of(load_study(other)) == topic_of(study):
            other.unlink()


def load_study(path: PathLike) -> Study:
    """Read a study; a damaged, foreign or later file raises an error that names it."""
    try:
        record = schema.mapping(read_json(path), "the record")
        if schema.whole(record.pop("format"), "format") > FORMAT:
            raise FormatError(f"{path} is of a later version of displace: pip install -U displace")
        return schema.made(KINDS[record.pop("study")], record)
    except FormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise FormatError(
            f"{path} is not a study ({type(error).__name__}: {error}); delete it and run the study again"
        ) from None


def load_studies(folder: PathLike) -> list[Study]:
    """Read all studies of a results folder, in the order of `KINDS`, then by file name."""
    order = list(KINDS)
    found = sorted((Path(folder) / FOLDER).glob("*.json"))
    return sorted((load_study(path) for path in found), key=lambda study: order.index(kind_of(study)))


def studies_beside(folder: PathLike, cells: Iterable[Result]) -> list[Study]:
    """Read the studies that may stand beside the tables of `cells`: others are of earlier descriptors or references."""
    bases = {
        (cell.dataset, cell.protocol, cell.model, cell.query): cell.basis
        for cell in sorted(cells, key=lambda cell: cell.recency)  # the last run counts, as in tables
    }
    kept = []
    for study in load_studies(folder):
        made = study.setting
        basis = bases.get((made.dataset, made.protocol, made.model, made.query))
        if made.content and basis not in (None, (made.content, sorted(made.references))):
            logger.warning(
                "left out: study %s of %s %s, which is of other descriptors or references than the tables: run it "
                "again with --studies %s",
                *(kind_of(study), made.dataset, made.model, kind_of(study)),
            )
        else:
            kept.append(study)
    return kept
