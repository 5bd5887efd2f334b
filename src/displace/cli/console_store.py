"""Output of verbs on manifests and stores, and listings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from displace.cli import console
from displace.cli.console import out, say, show_skipped
from displace.cli.console_maps import show_map
from displace.datasets.base import Check
from displace.descriptors.extraction import Extraction
from displace.descriptors.store_summary import StoreSummary, summarize_store
from displace.manifest.summary import Summary, Traversal
from displace.maps import PlaceMap
from displace.models import ModelRow, model_name
from displace.verbs.base import MAP_ENDING
from displace.verbs.listing import Listed
from displace.verbs.manifest import manifest_output
from displace.verbs.update import steps_to_add


def show_manifest(summary: Summary | Check, given: Mapping[str, Any]) -> None:
    """Print the counts, and where the manifest is."""
    written = "" if given["check"] else f"\n{manifest_output(given['sources'], given['output'])}"
    next_step = _next(given) if isinstance(summary, Summary) and summary.places else ""
    say(f"{summary}{written}{next_step}")


def _next(given: Mapping[str, Any]) -> str:
    """The commands that add a recording to the map whose places it got, with the map's model."""
    against = given["against"]
    if given["check"] or against is None or Path(against).suffix != MAP_ENDING:
        return ""
    model = PlaceMap.load(against, verify=False).model
    if model is None or model.get("imported"):
        return ""
    return f"\nnext: {steps_to_add(manifest_output(given['sources'], given['output']), model, against)}"


def exit_manifest(summary: Summary | Check, given: Mapping[str, Any]) -> int:
    """1 if a check found problems."""
    return 1 if given["check"] and not summary.ok else 0


def show_extract(done: Extraction, given: Mapping[str, Any]) -> None:
    """Print what was described; after relabelling, what the store holds."""
    if given["relabel"]:
        show_store(summarize_store(done.store))
    else:
        show_extraction(done)


def show_import(summary: StoreSummary, _: Mapping[str, Any]) -> None:
    """Print what the store holds."""
    show_store(summary)


def show_inspect(held: PlaceMap | StoreSummary, given: Mapping[str, Any]) -> None:
    """Print what a map or a store holds."""
    if isinstance(held, PlaceMap):
        show_map(held, given["source"])
    else:
        show_store(held)


def record_inspect(held: PlaceMap | StoreSummary, given: Mapping[str, Any]) -> Any:
    """What a map or a store holds, JSON-able."""
    if isinstance(held, PlaceMap):
        file = Path(given["source"])
        return {"file_bytes": file.stat().st_size if file.is_file() else None, **held.to_json()}
    return console.record(held, given)


def show_list(rows: Sequence[Any], given: Mapping[str, Any]) -> None:
    """Print a listing."""
    out.print(models_table(rows) if given["what"] == "models" else entries_table(rows))


def show_extraction(done: Extraction) -> None:
    """Print what was described, reused and skipped."""
    store = done.store
    rate = f", {done.n_described / done.seconds:,.1f}/s" if done.n_described and done.seconds else ""
    out.print(
        f"{done.n_described:,} images described, {done.n_reused:,} reused, {len(done.skipped):,} skipped "
        f"in {done.seconds:,.1f} s{rate}"
    )
    if done.n_unlisted:
        out.print(
            f"{done.n_unlisted:,} images of the earlier manifest are no longer listed; their descriptors are kept"
        )
    show_skipped(done.skipped)
    say(f"{store.folder}: {len(store):,} × {store.dim} {store.dtype}, by {store.model.get('model')}")


def show_store(summary: StoreSummary) -> None:
    """Print what a store holds."""
    facts = {
        "model": model_name({"model": "?", **summary.model}),
        "descriptors": f"{summary.n_described:,} of {summary.n_listed:,} images, {summary.dim} × {summary.dtype}",
        "places": f"{summary.n_places:,}",
        "right match": summary.tolerance or "–",
        "size": f"{decimal(summary.n_bytes)} in {summary.n_shards} shard{'s' * (summary.n_shards != 1)}",
    }
    if summary.n_pending:
        facts["pending"] = f"{summary.n_pending:,} images not described yet: run displace extract again"
    if summary.n_unused:
        facts["unused"] = f"{summary.n_unused:,} descriptors of images that are no longer listed"
    if summary.damaged:
        facts["damaged"] = (
            f"{', '.join(summary.damaged)}: run displace extract again to describe their images anew"
        )
    if summary.skipped:
        facts["skipped"] = f"{len(summary.skipped):,} images"
    grid = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        grid.add_row(key, Text(value))
    out.print(Text(summary.folder, style="bold"), grid, sep="\n")
    show_skipped(summary.skipped)
    out.print(traversals_table(summary.traversals))


def traversals_table(traversals: list[Traversal]) -> Table:
    """Images, places and coverage of each traversal."""
    table = Table("traversal")
    for name in ("images", "places", "coverage", "without place"):
        table.add_column(name, justify="right")
    for row in traversals:
        table.add_row(
            Text(row.name), f"{row.images:,}", f"{row.places:,}", f"{row.coverage:.1%}", f"{row.blank:,}"
        )
    return table


def models_table(rows: Sequence[ModelRow]) -> Group:
    """Every model with its licences, paper and variants; the default variant is bold."""
    parts: list[RenderableType] = []
    for family, variants in groupby(rows, key=lambda row: row.name.partition(":")[0]):
        listed = list(variants)
        model = listed[0]
        parts.append(Text.assemble((family, "bold cyan"), "  ", model.paper))
        parts.append(Text(f"  code: {model.licence}; weights: {model.weights_licence}", style="dim"))
        grid = Table.grid(padding=(0, 2))
        for row in listed:
            name = Text("  " + row.name, style="bold" if row.is_default else "", no_wrap=True)
            grid.add_row(name, Text(f"{row.dim}-D"), _weights_state(row))
        parts += [grid, Text()]
    return Group(*parts)


def _weights_state(row: ModelRow) -> Text:
    if not row.installed:
        return Text(f"needs pip install 'displace[{row.extra}]'", style="yellow")
    if row.weights_address is None:
        return Text("no weights needed", style="green")
    state = ("weights here", "green") if row.weights_here else ("weights not here yet", "dim")
    trust = "trusted on first use" if row.weights_sha256 is None else f"SHA-256 {row.weights_sha256[:12]}…"
    return Text.assemble(state, (f", {trust}", "dim"))


def entries_table(rows: Sequence[Listed]) -> Table:
    """Names with one line about each."""
    grid = Table.grid(padding=(0, 2))
    for row in rows:
        about = Text.assemble(row.about, *[("\n" + line, "dim") for line in (row.paper, row.obtain) if line])
        grid.add_row(Text(row.name, style="bold"), about)
    return grid
