"""Every verb of the command line as a function. Defaults live here and nowhere else."""

from displace.pipeline.evaluation import Tabulated, bench, evaluate, tables, tabulate
from displace.pipeline.importing import import_features
from displace.pipeline.locating import Located, locate
from displace.pipeline.maps import advise, build, export, open_map, update
from displace.pipeline.recordings import (
    Entry,
    check,
    dataset_manifest,
    datasets,
    demo,
    extract,
    fusions,
    inspect,
    manifest,
    models,
    read_manifest,
    relabel,
)
from displace.pipeline.reporting import report

__all__ = [
    "Entry",
    "Located",
    "Tabulated",
    "advise",
    "bench",
    "build",
    "check",
    "dataset_manifest",
    "datasets",
    "demo",
    "evaluate",
    "export",
    "extract",
    "fusions",
    "import_features",
    "inspect",
    "locate",
    "manifest",
    "models",
    "open_map",
    "read_manifest",
    "relabel",
    "report",
    "tables",
    "tabulate",
    "update",
]
