"""Every verb of the command line as a function, one file each. Defaults and their documentation live here only.

The files import their dependencies when they are called, so that `displace --help` is fast.
"""

from displace.verbs.advise import advise
from displace.verbs.align import align
from displace.verbs.base import read_manifest
from displace.verbs.bench import bench
from displace.verbs.build import build
from displace.verbs.demo import demo
from displace.verbs.evaluate import evaluate
from displace.verbs.export import export
from displace.verbs.extract import extract
from displace.verbs.import_features import import_features
from displace.verbs.inspect import inspect
from displace.verbs.listing import listing
from displace.verbs.locate import locate
from displace.verbs.manifest import manifest
from displace.verbs.report import report
from displace.verbs.serve import serve
from displace.verbs.tabulate import Tabulated, tabulate
from displace.verbs.update import update

__all__ = [
    "Tabulated",
    "advise",
    "align",
    "bench",
    "build",
    "demo",
    "evaluate",
    "export",
    "extract",
    "import_features",
    "inspect",
    "listing",
    "locate",
    "manifest",
    "read_manifest",
    "report",
    "serve",
    "tabulate",
    "update",
]
