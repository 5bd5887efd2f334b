"""What the command line shows of maps: summaries, located images, updates, advice."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from displace.interop.locations import Locations
from displace.maps import PlaceMap, Update
from displace.maps.calibration import Calibration

SHOWN = 40
"""Images of which the table shows a row; -o writes all."""
STALE = "the confidence was learned before an update, from other traversals; build the map again to redo it"


def show_map(console: Console, town: PlaceMap, path: Path) -> None:
    """Show what a map holds."""
    grid = Table.grid(padding=(0, 2))
    for name, value in _facts(town, path):
        grid.add_row(Text(name, style="dim"), Text(value))
    console.print(grid, highlight=False)
    if town.calibration is None:
        console.print(_why_uncalibrated(town), style="yellow", highlight=False)
        return
    if town.calibration_is_stale:
        console.print(STALE, style="yellow", highlight=False)
    console.print(reliability_table(town.calibration))


def map_record(town: PlaceMap, path: Path) -> dict[str, Any]:
    """What a map holds, JSON-able."""
    return {
        "file_bytes": path.stat().st_size,
        "places": len(town.place_ids),
        "traversals": town.traversals,
        "fusion": town.fusion,
        "settings": town.settings,
        "reason": town.reason,
        "rows": list(town.vectors.shape),
        "dtype": str(town.vectors.dtype),
        "dim": town.dim,
        "storage": town.notes,
        "model": town.model,
        "has_positions": town.positions is not None,
        "tolerance": town.tolerance,
        "no_statistics": town.no_statistics,
        "statistics_bytes": None if town.statistics is None else town.statistics.nbytes,
        "calibration": None if town.calibration is None else town.calibration.to_json(),
        "calibration_is_stale": town.calibration_is_stale,
    }


def _facts(town: PlaceMap, path: Path) -> Iterable[tuple[str, str]]:
    n_references = sum(town.traversals.values())
    listed = ", ".join(f"{name} ({count})" for name, count in town.traversals.items())
    yield "map", f"{path}, {decimal(path.stat().st_size)}"
    yield "places", f"{len(town.place_ids)}" + (", with positions" if town.positions is not None else "")
    yield "traversals", f"{listed}; {n_references} references"
    yield "fusion", f"{town.fusion}: {town.reason}"
    yield (
        "rows",
        f"{town.vectors.shape[0]} of {town.vectors.shape[1]} numbers, {town.vectors.dtype}{_loss(town)}",
    )
    yield "model", town.model_name if town.model else "none: a map of bare vectors"
    if town.statistics is None:
        why = f": {town.no_statistics}" if town.no_statistics else ""
        yield "statistics", f"none, the map can be used but not updated{why}"
    else:
        yield "statistics", f"{decimal(town.statistics.nbytes)} beside it, needed only to update"
    if town.calibration is not None:
        right = f"within {town.tolerance:g} m" if town.tolerance else "the very place"
        c = town.calibration
        yield (
            "confidence",
            f"from {c.n_queries} held-out queries ({right}): AUC {c.auc:.3f}, calibration error {c.error:.3f}",
        )


def _loss(town: PlaceMap) -> str:
    """What storing rows in fewer bits costs, as far as it was measured."""
    recalls = town.notes.get("recall_at_1")
    if recalls:
        listed = ", ".join(f"{recall:.2f} % as {dtype}" for dtype, recall in recalls.items())
        return f"; R@1 of {town.notes['n_queries']:,} held-out queries: {listed}"
    if "same_top_match" in town.notes:
        same = town.notes["same_top_match"]
        return f"; same best place as with float32 for {same:g} % of the rows with noise added"
    return ""


def _why_uncalibrated(town: PlaceMap) -> str:
    if len(town.traversals) < 3:
        return f"no confidence: {len(town.traversals)} traversals, and it takes three to learn how sure a match is"
    return "no confidence: the map was built without it, or held-out matches were all right or all wrong"


def reliability_table(calibration: Calibration) -> Table:
    """Show how often matches of each probability were right, on held-out traversals."""
    table = Table(title="held-out matches: how often a probability was right", title_justify="left")
    for name in ("probability", "right", "queries"):
        table.add_column(name, justify="right")
    table.add_column("")
    for probability, right, count in calibration.curve:
        bar = "█" * round(20 * right)
        table.add_row(f"{probability:.2f}", f"{right:.2f}", f"{count:.0f}", bar)
    return table


def locations_record(locations: Locations, min_confidence: float) -> list[dict[str, Any]]:
    """Located images as JSON-able records."""
    matches, accepted = locations.matches, locations.accepted(min_confidence)
    readable, numbers = locations.accepted(), locations.manifest.numbers
    records = []
    for row, image in enumerate(locations.manifest.images):
        record: dict[str, Any] = {
            "image": image,
            **{name: _or_none(round(float(numbers[name][row]), 6)) for name in FRAME if name in numbers},
            "in_map": bool(accepted[row]),
            "places": matches.places[row].tolist() if readable[row] else [],
            "scores": [round(float(score), 6) for score in matches.scores[row]] if readable[row] else [],
        }
        if matches.confidence is not None:
            record["confidence"] = _or_none(round(float(matches.confidence[row]), 6))
            if locations.town.calibration_is_stale:
                record["confidence_is_stale"] = True
        if matches.positions is not None:
            names = ("latitude", "longitude") if matches.positions.degrees else ("easting", "northing")
            record |= dict(zip(names, map(_or_none, matches.positions.points[row]), strict=True))
        records.append(record)
    return records


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def show_locations(
    console: Console, locations: Locations, min_confidence: float, output: Path | None
) -> None:
    """Show located images: one in full, many as a table."""
    records = locations_record(locations, min_confidence)
    if len(records) == 1:
        _show_one(console, records[0])
    else:
        _show_many(console, records)
    if output is not None:
        console.print(Text(f"{len(records)} rows in {output}"), soft_wrap=True)
    if locations.town.calibration_is_stale:
        console.print(STALE, style="yellow", highlight=False)


def _show_one(console: Console, record: dict[str, Any]) -> None:
    console.print(record["image"], style="bold", highlight=False, markup=False)
    table = Table("place", box=None, pad_edge=False)
    table.add_column("score", justify="right")
    for place, score in zip(record["places"], record["scores"], strict=True):
        table.add_row(Text(str(place)), f"{score:.3f}")
    console.print(table)
    console.print(_verdict(record), highlight=False)


def _verdict(record: dict[str, Any]) -> Text:
    best = record["places"][0]
    if not record["in_map"]:
        return Text.assemble(("not in the map", "yellow"), f" (confidence {record['confidence']:.2f})")
    confidence = record.get("confidence", 1.0)
    if confidence < 0.5:
        return Text.assemble(
            (f"probably not in the map, or not {best}", "yellow"),
            f": confidence {confidence:.2f} that this is right",
        )
    sure = f", confidence {confidence:.2f}" if "confidence" in record else ""
    where = ", ".join(f"{name} {record[name]:.6g}" for name in POSITION if record.get(name) is not None)
    return Text(f"at {best}{sure}" + (f", {where}" if where else ""))


FRAME = ("frame", "timestamp")
POSITION = ("easting", "northing", "latitude", "longitude")


def _show_many(console: Console, records: list[dict[str, Any]]) -> None:
    table = Table()
    table.add_column("image", overflow="fold")
    frame = [name for name in FRAME if name in records[0]]
    for name in frame:
        table.add_column(name, justify="right")
    table.add_column("place")
    columns = ["confidence"] if "confidence" in records[0] else []
    columns += [name for name in POSITION if name in records[0]]
    for name in ("score", *columns):
        table.add_column(name, justify="right")
    for record in records[:SHOWN]:
        score = f"{record['scores'][0]:.3f}" if record["scores"] else ""
        cells = [_number(name, record[name]) for name in columns]
        table.add_row(
            Text(record["image"]),
            *[_number(name, record[name]) for name in frame],
            _place(record),
            score,
            *cells,
        )
    console.print(table)
    if len(records) > SHOWN:
        console.print(f"… and {len(records) - SHOWN} more; -o FILE or --json has all", highlight=False)
    n_in = sum(record["in_map"] for record in records)
    if n_in < len(records):
        console.print(f"{n_in} of {len(records)} images are in the map", highlight=False)


def _place(record: dict[str, Any]) -> Text:
    if record["in_map"]:
        return Text(str(record["places"][0]))
    return Text("not in the map" if record["places"] else "not readable", style="yellow")


def _number(name: str, value: float | None) -> str:
    if value is None:
        return ""
    digits = {"frame": 0, "timestamp": 2, "confidence": 2, "latitude": 6, "longitude": 6}.get(name, 1)
    return f"{value:.{digits}f}"


def show_update(console: Console, done: Update, path: Path) -> None:
    """Show what an update did."""
    verb = "added" if done.n_references > 0 else "removed"
    console.print(
        Text(f"{verb} {abs(done.n_references)} references, {done.n_places:+d} places: {path}"), soft_wrap=True
    )
    if done.sampling_ratio is not None:
        before, after = done.sampling_ratio
        console.print(
            f"the projection moved by {done.moved:.1f} % of its span; γ {before:.3g} → {after:.3g}",
            highlight=False,
        )
    if done.decided:
        console.print(Text(f"settings that one traversal had left open: {done.decided}"), soft_wrap=True)
    for advice in done.advice:
        console.print(Text(f"do again: {advice}", style="yellow"), soft_wrap=True)
