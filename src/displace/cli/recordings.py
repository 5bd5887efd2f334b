"""The verbs from recordings to descriptors: manifest, extract, inspect, list, demo."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from displace import pipeline
from displace.cli import console, console_maps
from displace.cli.app import app
from displace.cli.console import err, out
from displace.cli.console_demo import show_demo
from displace.datasets.base import Check
from displace.manifest.summary import Summary


class What(StrEnum):
    """What can be listed."""

    models = "models"
    datasets = "datasets"
    fusions = "fusions"


LISTINGS: dict[What, tuple[Callable[[], Sequence[Any]], Callable[[Any], RenderableType]]] = {
    What.models: (pipeline.models, console.models_table),
    What.datasets: (pipeline.datasets, console.entries_table),
    What.fusions: (pipeline.fusions, console.entries_table),
}


@app.command()
def manifest(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE",
            help="A folder with one sub-folder, video or bag for each traversal; or each traversal's folder, "
            "video or bag. With --check: a manifest.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV file to write.", show_default="SOURCE's name.csv"),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: count a manifest and decode each of its images.")
    ] = False,
    layout: Annotated[
        str, typer.Option(help="How places are told: auto, utm, positions, landmarks, names or order.")
    ] = "auto",
    dataset: Annotated[
        str | None, typer.Option(help="SOURCE is this data set (see: displace list datasets).")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Manifest or map with known places, to which SOURCE is assigned.")
    ] = None,
    anchor: Annotated[
        str | None,
        typer.Option(help="Traversal along which places are made.", show_default="the one that fits best"),
    ] = None,
    spacing: Annotated[float, typer.Option(help="Metres between places.")] = 5.0,
    radius: Annotated[float, typer.Option(help="Metres within which an image shows a place.")] = 10.0,
    max_heading: Annotated[float, typer.Option(help="Degrees by which its heading may differ.")] = 45.0,
    max_gap: Annotated[
        float, typer.Option(help="Seconds between an image and the nearest recorded position.")
    ] = 2.0,
    drop_off_route: Annotated[
        bool,
        typer.Option(
            "--drop-off-route", help="Leave out images near no place, else kept with a blank place."
        ),
    ] = False,
    every: Annotated[
        str, typer.Option(help="Video, bag: take every n-th frame (5), or one each so many seconds (0.5s).")
    ] = "1",
    topic: Annotated[str | None, typer.Option(help="Bag: image topic.", show_default="the only one")] = None,
    positions_topic: Annotated[
        str | None,
        typer.Option(
            help="Bag: NavSatFix or Odometry topic.", show_default="the first NavSatFix, then Odometry"
        ),
    ] = None,
    allow_truncated: Annotated[
        bool, typer.Option("--allow-truncated", help="Video: keep what can be read of a damaged file.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the CSV file where it exists.")
    ] = False,
) -> None:
    """Make the table that says which image shows which place in which traversal.

    ROUTE may hold a folder for each traversal, with equal file names, in equal
    order, with a CSV file of positions each or with file names of the form
    @easting@northing@…@.jpg; or a folder for each place. Which it is, is found
    out, or said with --layout.

    [bold]Examples[/]

    displace manifest ROUTE -o route.csv
    displace manifest ROUTE -o route.csv --spacing 2 --radius 5
    displace manifest sun.mp4 night.mp4 -o route.csv --every 0.5s
    displace manifest drive.bag -o route.csv --topic /camera/image_raw
    displace manifest 2027-01-04 -o snow.csv --against route.csv
    displace manifest NORDLAND -o nordland.csv --dataset nordland
    displace manifest route.csv --check
    """
    output = output or Path(f"{sources[0].resolve().stem}.csv")
    summary: Check | Summary
    with console.bars(err) as bars:
        if dataset:
            summary = pipeline.dataset_manifest(
                dataset, _only(sources), None if check else output, overwrite=overwrite
            )
        elif check:
            summary = pipeline.check(_only(sources), progress=bars.stage)
        else:
            summary = pipeline.manifest(
                sources,
                output,
                layout=layout,
                against=against,
                anchor=anchor,
                spacing=spacing,
                radius=radius,
                max_heading=max_heading,
                max_gap=max_gap,
                drop_off_route=drop_off_route,
                every=every,
                topic=topic,
                positions_topic=positions_topic,
                allow_truncated=allow_truncated,
                overwrite=overwrite,
                progress=bars.stage,
            )
    out.print(
        str(summary) if check else f"{summary}\n{output}", highlight=False, markup=False, soft_wrap=True
    )
    if check and not summary.ok:
        raise typer.Exit(1)


@app.command()
def extract(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="MANIFEST", help="CSV file with image, place, traversal. With --manifest: a store."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The store, a folder.", show_default="MANIFEST with .desc"),
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="See: displace list models.")] = "hog",
    weights: Annotated[
        Path | None, typer.Option(help="Weights file.", show_default="the published one")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Cores to use.", show_default="all")] = None,
    batch_size: Annotated[int, typer.Option(help="Images given to the model at a time.")] = 16,
    image_size: Annotated[
        str | None,
        typer.Option(help="native, 322 (shorter side) or 640x480.", show_default="as published"),
    ] = None,
    crop: Annotated[
        str | None,
        typer.Option(
            metavar="T,R,B,L", help="Cut off at top, right, bottom, left: pixels, or a fraction below 1."
        ),
    ] = None,
    mask: Annotated[Path | None, typer.Option(help="Image whose dark pixels are left out.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32 or float16.", show_default="the store's own, float32 if new")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if images could not be read.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Drop the descriptors in the store and start anew.")
    ] = False,
    relabel: Annotated[
        Path | None,
        typer.Option(
            "--manifest",
            help="Replace the places, traversals and positions of the store MANIFEST by those of this file. "
            "No image is read.",
        ),
    ] = None,
) -> None:
    """Describe the images of a manifest and keep the descriptors in a store.

    Stopped or killed at any moment, it goes on where it stopped when it is run
    again. Images are known by their content: renamed or reordered ones are not
    described again, changed ones are.

    [bold]Examples[/]

    displace extract route.csv
    displace extract route.csv --model megaloc -o route.desc
    displace extract route.csv --model mixvpr --weights mixvpr.ckpt --device cuda
    displace extract route.csv --crop 0,0,0.1,0 --mask bonnet.png --dtype float16
    displace extract route.desc --manifest relabelled.csv
    """
    if relabel:
        if output:
            raise typer.BadParameter("--manifest changes the store that is named first; leave out -o")
        pipeline.relabel(source, relabel)
        console.show_store(out, pipeline.inspect(source))
        return
    with console.bars(err) as bars:
        done = pipeline.extract(
            source,
            output,
            model=model,
            weights=weights,
            device=device,
            threads=threads,
            batch_size=batch_size,
            image_size=image_size,
            crop=crop,
            mask=mask,
            dtype=dtype,
            strict=strict,
            overwrite=overwrite,
            progress=bars.stage,
            download=bars.download,
        )
    console.show_extraction(out, done)


@app.command()
def inspect(
    source: Annotated[Path, typer.Argument(metavar="STORE|MAP", help="A descriptor store, or a map.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every skipped image.")] = False,
) -> None:
    """Say what a descriptor store or a map holds.

    Of a store no vector is read; of a map every byte is checked. A map shows its
    settings and why, its size, what rounding costs, and how sure its matches are.

    [bold]Examples[/]

    displace inspect route.desc
    displace inspect town.displace
    displace inspect town.displace --json
    """
    if source.is_file():
        town = pipeline.open_map(source)
        if as_json:
            console.show_json(out, console_maps.map_record(town, source))
        else:
            console_maps.show_map(out, town, source)
        return
    summary = pipeline.inspect(source)
    if as_json:
        console.show_json(out, dataclasses.asdict(summary))
    else:
        console.show_store(out, summary)


@app.command("list")
def list_(
    what: Annotated[What, typer.Argument(help="What to list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models, data sets or fusions that there are.

    [bold]Examples[/]

    displace list models
    displace list datasets
    displace list fusions --json
    """
    list_rows, as_table = LISTINGS[what]
    rows = list_rows()
    if as_json:
        console.show_json(out, [dataclasses.asdict(row) for row in rows])
    else:
        out.print(as_table(rows))


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where the pictures, the map and the page go.")] = Path(
        "displace-demo"
    ),
    places: Annotated[int, typer.Option(help="Places along the route, 20 to 2000.")] = 200,
) -> None:
    """Draw a town in six conditions, map five, locate the night, compare all fusions.

    Takes about a minute and no download. Writes demo.html, a page with a map and
    pictures, and demo.md, its tables. Run again, it keeps what is drawn.

    [bold]Examples[/]

    displace demo
    displace demo --folder town --places 400
    """
    with console.bars(err) as bars:
        done = pipeline.demo(folder, places=places, progress=bars.stage)
    show_demo(out, done)


def _only(paths: list[Path]) -> Path:
    """Return the one path that --check and --dataset take."""
    if len(paths) > 1:
        raise typer.BadParameter(f"--check and --dataset take one SOURCE; got {len(paths)}")
    return paths[0]
