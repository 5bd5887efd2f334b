"""The demonstration: every fusion on one generated route."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table

from displace.fusion import FUSIONS
from displace.metrics import recall_at
from displace.synthetic import make_route


def run(console: Console) -> None:
    """Fit all fusions on generated references, rank a further traversal, print the table."""
    route = make_route()
    refs = route.references
    console.print(f"{refs}, {len(route.queries)} queries from one more traversal\n")
    table = Table("fusion", "level", title="Recall on a generated route (exact place)")
    for name in ("R@1", "R@5", "fit, s", "query, ms", "KiB"):
        table.add_column(name, justify="right")
    note = ""
    for name in sorted(FUSIONS.names(), key=lambda name: FUSIONS.get(name).level):
        fusion = FUSIONS.get(name)()
        start = time.perf_counter()
        fusion.fit(refs.vectors, refs.places, refs.traversals)
        fitted = time.perf_counter()
        matches = fusion.rank(route.queries, k=5)
        ranked = time.perf_counter()
        recalls = recall_at(matches, route.truth, ks=(1, 5))
        milliseconds = 1000 * (ranked - fitted) / len(route.queries)
        table.add_row(
            name,
            fusion.level,
            f"{recalls[1]:.1f}",
            f"{recalls[5]:.1f}",
            f"{fitted - start:.2f}",
            f"{milliseconds:.3f}",
            f"{fusion.nbytes_ / 1024:.0f}",
        )
        if name == "displace":
            note = fusion.explain()
    console.print(table)
    console.print(f"\ndisplace used {note}", highlight=False)
