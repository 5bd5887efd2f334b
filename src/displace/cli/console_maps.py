"""Output of verbs on maps: summaries, located images, updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite, nan
from pathlib import Path, PurePath
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from displace.cli.console import err, out, say, show_skipped
from displace.descriptors.store import DescriptorStore, is_store
from displace.maps import PlaceMap
from displace.maps.calibration import Calibration
from displace.maps.located import FRAME, Located
from displace.maps.refusals import of_a_drive, of_refusals
from displace.maps.remarks import (
    ADAPTED,
    STALE,
    moved,
    no_confidence,
    of_confidence,
    of_missing_stretches,
    rounding_loss,
)
from displace.verbs._steps import store_beside
from displace.verbs.base import listed
from displace.verbs.build import map_output

if TYPE_CHECKING:
    from displace.maps.updating import Update

SHOWN = 40
"""Images that the table shows; -o writes all."""
FOLDED = 0.4
"""Share of the width above which names would be folded beside the other columns."""
BY_DESCRIPTORS = ", by descriptors alone"
"""Said of what held-out queries tell, where photos are also compared with pictures."""


def show_map(place_map: PlaceMap, path: str | Path) -> None:
    """Show what a map holds."""
    grid = Table.grid(padding=(0, 2))
    for name, value in _facts(place_map, path):
        grid.add_row(Text(name, style="dim"), Text(value))
    out.print(grid)
    if place_map.calibration is None:
        out.print(no_confidence(place_map), style="yellow")
        return
    if place_map.calibration_is_stale:
        out.print(STALE, style="yellow")
    if place_map.calibration.curve:
        out.print(reliability_table(place_map.calibration, alone=place_map.compares_pictures))


def _facts(place_map: PlaceMap, path: str | Path) -> Iterable[tuple[str, str]]:
    n_references = sum(place_map.traversals.values())
    listed = ", ".join(f"{name} ({count})" for name, count in place_map.traversals.items())
    size = f", {decimal(Path(path).stat().st_size)}" if Path(path).is_file() else ""
    yield "map", f"{path}{size}"
    yield (
        "places",
        f"{len(place_map.place_ids)}" + (", with positions" if place_map.positions is not None else ""),
    )
    yield "traversals", f"{listed}; {n_references} reference{'s' * (n_references != 1)}"
    yield "fusion", f"{place_map.fusion}: {place_map.reason}"
    n, dim = place_map.vectors.shape
    loss = rounding_loss(place_map)
    yield "rows", f"{n} rows of {dim} numbers, {place_map.vectors.dtype}" + (f"; {loss}" if loss else "")
    yield "model", place_map.model_name if place_map.model else "none: a map of bare vectors"
    if place_map.statistics is None:
        why = f": {place_map.no_statistics}" if place_map.no_statistics else ""
        yield "statistics", f"none: the map can be used but not updated{why}"
    else:
        yield "statistics", f"{decimal(place_map.statistics.nbytes)} beside it, needed only to update"
    if place_map.calibration is not None:
        right = str(place_map.tolerance)
        c = place_map.calibration
        alone = BY_DESCRIPTORS if place_map.compares_pictures else ""
        learned = f": AUC {c.auc:.3f}, calibration error {c.error:.3f}{alone}" if c.curve else ""
        yield "confidence", f"from {c.n_queries} held-out queries ({right}){learned}"
        if (sketches := place_map.state.sketches) is not None:
            n = int(sketches.packed.any(axis=1).sum())
            yield (
                "",
                f"photos are also compared with sketches of {n} places, {decimal(sketches.packed.nbytes)}",
            )
        elif place_map.model is not None and not place_map.model.get("imported"):
            yield "", "photos are judged by their descriptors alone: the map has no sketches of its places"
        for remark in (*of_confidence(c), *of_missing_stretches(place_map)):
            yield "", remark


def reliability_table(calibration: Calibration, alone: bool = False) -> Table:
    """Show how often held-out matches of each probability were right; `alone` if pictures tell more."""
    title = (
        f"how often matches were right{BY_DESCRIPTORS}" if alone else "how often held-out matches were right"
    )
    table = Table(title=title, title_justify="left")
    for name in ("probability", "right", "queries"):
        table.add_column(name, justify="right")
    table.add_column("")
    for probability, right, count in calibration.curve:
        bar = "█" * round(20 * right)
        table.add_row(f"{probability:.2f}", f"{right:.2f}", f"{count:.0f}", bar)
    return table


def show_locate(located: Located, given: Mapping[str, Any]) -> None:
    """Show located images: one in full, many as a table."""
    records, output = located.to_json(), given["output"]
    if len(records) == 1:
        _show_one(records[0])
    else:
        _show_many(out, records, "" if output else "; -o FILE or --json gives all")
        if not output and (given["k"] or 1) > 1:
            out.print("showing the best place of each image; -o FILE or --json gives -k of them")
    if output is not None:
        say(f"{_rows(records)} in {output}{_unsure(located, records)}")
    if located.adapted:
        out.print(ADAPTED)
    if any(located.matches.view) and isinstance(located.place_map, PlaceMap):
        out.print(moved(located.place_map, located.matches.view))
    if remark := of_refusals(located):
        out.print(remark, style="yellow")
    if given["follow"] is None and (remark := of_a_drive(located)):
        say(remark)
    if located.place_map.calibration_is_stale:
        out.print(STALE, style="yellow")


def _rows(records: list[dict[str, Any]]) -> str:
    return "1 row" if len(records) == 1 else f"{len(records):,} rows"


def _unsure(located: Located, records: list[dict[str, Any]]) -> str:
    """A note on images that the screen calls not in the map but the file has a place for, without a limit."""
    unsure = any(record["places"] and record["in_map"] is False for record in records)
    if located.min_confidence is not None or not unsure:
        return ""
    return (
        "; it has the likeliest place of images not in the map, too; --min-confidence 0.5 leaves those blank"
    )


def exit_locate(located: Located, _: Mapping[str, Any]) -> int:
    """1 if images could not be read, or none is in the map."""
    show_skipped(located.skipped, err)
    return 1 if located.skipped or not located.reached.any() else 0


def show_build(place_map: PlaceMap, given: Mapping[str, Any]) -> None:
    """Show what a map holds, and which images could not be read."""
    output = map_output(given["store"], given["output"])
    show_map(place_map, output)
    sources = listed(given["store"])
    folders = sources if all(map(is_store, sources)) else [store_beside(sources, output)]
    skipped = {name: why for folder in folders for name, why in DescriptorStore(folder).skipped.items()}
    if skipped:
        say(f"{len(skipped):,} images are not in the map, because they could not be read", "yellow", err)
        show_skipped(skipped, err)
    model = place_map.model or {}
    asked = (
        "STORE" if model.get("imported") else "PHOTO, FOLDER or VIDEO"
    )  # another program describes its queries
    mask = " --mask FILE" if model.get("mask_sha256") else ""
    say(f"next: displace locate {quote(str(output))} {asked}{mask}")


def show_export(written: list[Path] | list[str], _: Mapping[str, Any]) -> None:
    """Print the names of the files, or of the map in a database."""
    for path in written:
        say(str(path))


def _show_one(record: dict[str, Any]) -> None:
    out.print(record["image"], style="bold", markup=False)
    table = Table("place", box=None, pad_edge=False)
    table.add_column("score", justify="right")
    for place, score in zip(record["places"], record["scores"], strict=True):
        table.add_row(Text(str(place)), f"{score:.3f}")
    out.print(table)
    places, scores = record["places"], record["scores"]
    if scores[0] < max(scores):
        alike = places[scores.index(max(scores))]
        say(f"the photo itself fits {places[0]} better than {alike}, which its descriptor is most like")
    out.print(_verdict(record))


def _verdict(record: dict[str, Any]) -> Text:
    best, known = record["places"][0], [name for name in POSITION if record.get(name) is not None]
    where = "".join(f", {name} {_number(name, record[name])}" for name in known)
    if record["in_map"] is None:
        return Text(
            f"most like {best}{where}; the map has no confidence, so it cannot tell whether this is right"
        )
    confidence = f"confidence {record['confidence']:.2f}"
    if not record["in_map"]:
        exactly = f"{record['confidence']:.4f}"  # a limit of 0.999 is missed by what would read 1.00
        sure = f"confidence {exactly}" if confidence.endswith("1.00") else confidence
        return Text.assemble(("not in the map", "yellow"), f": {sure} that it is at {best}")
    return Text(f"at {best}, {confidence}{where}")


POSITION = ("easting", "northing", "latitude", "longitude")


def _show_many(shown: Console, records: list[dict[str, Any]], where: str) -> None:
    """Show the first of many located images, and how to get the others."""
    table = Table()
    frame = [name for name in FRAME if name in records[0]]
    titles: list[list[Text]] = [[]] * SHOWN
    if frame and len({record["image"] for record in records}) == 1:
        say(f"frames of {records[0]['image']}", to=shown)
    else:
        folder, names = _within(shown, [record["image"] for record in records[:SHOWN]])
        if folder:
            say(f"images in {folder}", to=shown)
        table.add_column("image", overflow="fold")
        titles = [[Text(name)] for name in names]
    for name in frame:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("place", overflow="fold")
    columns = ["confidence"] if "confidence" in records[0] else []
    columns += [name for name in POSITION if name in records[0]]
    for name in ("score", *columns):
        table.add_column(name, justify="right", overflow="fold")  # a number that is cut off is another number
    for title, record in zip(titles, records, strict=False):
        score = f"{record['scores'][0]:.3f}" if record["scores"] else ""
        frames = [_number(column, record[column]) for column in frame]
        cells = [_cell(column, record) for column in columns]
        table.add_row(*title, *frames, _place(record), score, *cells)
    shown.print(table)
    if len(records) > SHOWN:
        shown.print(f"… and {len(records) - SHOWN} more{where}")
    n_in = sum(bool(record["in_map"]) for record in records)
    unknown = sum(record["in_map"] is None for record in records)
    if "confidence" in records[0] and (n_in < len(records) or len(records) > SHOWN):
        rest = f"; for {unknown} it is unknown, as they have no confidence" if unknown else ""
        shown.print(f"{n_in} of {len(records)} images are in the map{rest}")


def _within(shown: Console, names: list[str]) -> tuple[str, list[str]]:
    """The common folder of the images and their names in it, if whole names would be folded; else no folder."""
    parents = [set(PurePath(name).parents) for name in names]
    folder = max(set.intersection(*parents), key=lambda parent: len(parent.parts), default=PurePath())
    if not folder.name or max(map(len, names)) <= shown.width * FOLDED:
        return "", names
    return str(folder), [str(PurePath(name).relative_to(folder)) for name in names]


def _place(record: dict[str, Any]) -> Text:
    if record["in_map"] or (record["in_map"] is None and record["places"]):
        return Text(str(record["places"][0]))
    return Text("not in the map" if record["places"] else "not readable", style="yellow")


def _cell(name: str, record: dict[str, Any]) -> str:
    """A number of a located image; one that is not in the map has no position."""
    return "" if name in POSITION and record["in_map"] is False else _number(name, record[name])


def _number(name: str, value: float | None) -> str:
    if value is None:
        return ""
    digits = {"frame": 0, "timestamp": 2, "confidence": 2, "latitude": 6, "longitude": 6}.get(name, 1)
    return f"{value:.{digits}f}"


def show_update(done: Update, given: Mapping[str, Any]) -> None:
    """Show what an update did."""
    path = given["output"] or given["map_file"]
    verb = "added" if done.n_references > 0 else "removed"
    places = f", {done.n_places:+d} places" if done.n_places else ""
    say(f"{verb} {abs(done.n_references)} references of {', '.join(done.traversals)}{places}: {path}")
    before, after = done.sampling_ratio or (nan, nan)
    if isfinite(after):  # else nothing is left to project
        out.print(f"the projection moved by {done.moved:.1f} % of its span; γ {before:.3g} → {after:.3g}")
    if done.decided:
        say(f"settings chosen, which one traversal had left open: {done.decided}")
    if done.confidence:
        say(f"confidence: {done.confidence}")
    for advice in done.advice:
        say(f"do again: {advice}", "yellow")
    if any("again from all references" in said for said in (done.confidence, *done.advice)):
        say(
            f"to build it again: displace build STORE STORE … -o {quote(str(path))} --overwrite, with the store of "
            "each recording",
        )
