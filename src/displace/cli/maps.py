"""The verbs that make and use maps: build, locate, update, advise, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from displace import pipeline
from displace.cli import console, console_maps
from displace.cli.advice import advice_table
from displace.cli.app import app
from displace.cli.console import err, out

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output where it exists.")]
MapFile = Annotated[Path, typer.Argument(metavar="MAP", help="A map made by displace build.")]
Store = Annotated[Path, typer.Argument(metavar="STORE", help="A folder made by displace extract.")]
Traversals = Annotated[
    list[str] | None, typer.Option("--traversal", help="Use this traversal (repeat).", show_default="all")
]
Exclude = Annotated[list[str] | None, typer.Option(help="Leave this traversal out (repeat).")]
Tolerance = Annotated[
    float | None,
    typer.Option(
        help="Metres within which a match is right, where places have positions.", show_default="25"
    ),
]


@app.command()
def build(
    store: Store,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The map.", show_default="STORE with .displace")
    ] = None,
    fusion: Annotated[
        str, typer.Option(help="displace, hops, pooling, single, dmat_avg, or auto: what advise recommends.")
    ] = "displace",
    traversals: Traversals = None,
    exclude: Exclude = None,
    dtype: Annotated[str, typer.Option(help="How rows are stored: float16, float32 or int8.")] = "float16",
    calibration: Annotated[
        bool, typer.Option(help="Learn from held-out traversals how sure a match is; needs three.")
    ] = True,
    tolerance: Tolerance = None,
    keep_references: Annotated[
        bool,
        typer.Option("--keep-references", help="Keep what is needed to remove a traversal by name later."),
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Build a map: one file to deploy, and beside it one that an update needs.

    [bold]Examples[/]

    displace build route.desc -o town.displace
    displace build route.desc --exclude night --dtype int8
    displace build route.desc --fusion auto
    """
    with console.bars(err) as bars:
        town = pipeline.build(
            store,
            output,
            fusion=fusion,
            traversals=traversals,
            exclude=exclude,
            dtype=dtype,
            calibration=calibration,
            tolerance=tolerance,
            keep_references=keep_references,
            overwrite=overwrite,
            progress=bars.stage,
        )
    console_maps.show_map(out, town, output or store.with_suffix(pipeline.recordings.MAP_ENDING))


@app.command()
def locate(
    map_file: MapFile,
    sources: Annotated[
        list[Path], typer.Argument(metavar="IMAGE...", help="Images, folders, videos; or one STORE.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write a row for each image or frame: .csv, or .geojson for points."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Places for each image.")] = 5,
    min_confidence: Annotated[
        float, typer.Option(help="Below this probability an image counts as not in the map.")
    ] = 0.0,
    traversal: Annotated[str | None, typer.Option(help="STORE: which traversal.", show_default="all")] = None,
    search: Annotated[str, typer.Option(help="exact, faiss, or auto: the fastest there is.")] = "auto",
    every: Annotated[
        str, typer.Option(help="Video: take every n-th frame (5), or one each so many seconds (0.5s).")
    ] = "1",
    weights: Annotated[
        Path | None, typer.Option(help="Weights file.", show_default="the published one")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "auto",
    image_size: Annotated[
        str | None, typer.Option(help="As for the references.", show_default="the map's")
    ] = None,
    crop: Annotated[
        str | None,
        typer.Option(metavar="T,R,B,L", help="As for the references.", show_default="the map's"),
    ] = None,
    mask: Annotated[Path | None, typer.Option(help="The references' mask, if they had one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Say where images were taken.

    Confidence is the probability that the first place is right; a low one reads
    "not in the map". Maps of fewer than three traversals have none.

    Exit codes: 0 done; 1 with --min-confidence no image reached it, or images
    could not be read; 2 bad input.

    [bold]Examples[/]

    displace locate town.displace photo.jpg -k 5
    displace locate town.displace evening.mp4 --every 0.5s -o positions.csv
    displace locate town.displace drive/ --min-confidence 0.5 --json
    displace locate town.displace route.desc --traversal night
    """
    with console.bars(err) as bars:
        located = pipeline.locate(
            map_file,
            sources,
            output,
            k=k,
            min_confidence=min_confidence,
            traversal=traversal,
            search=search,
            every=every,
            weights=weights,
            device=device,
            image_size=image_size,
            crop=crop,
            mask=mask,
            overwrite=overwrite,
            progress=bars.stage,
        )
    if as_json:
        console.show_json(out, console_maps.locations_record(located.locations, min_confidence))
    else:
        console_maps.show_locations(out, located.locations, min_confidence, output)
    if located.skipped:
        console.show_skipped(err, located.skipped)
    if located.skipped or not located.locations.accepted(min_confidence).any():
        raise typer.Exit(1)


@app.command()
def update(
    map_file: MapFile,
    add: Annotated[
        Path | None, typer.Option(metavar="STORE", help="Add this recording, assigned to the map's places.")
    ] = None,
    traversals: Traversals = None,
    remove: Annotated[str | None, typer.Option(metavar="TRAVERSAL", help="Remove this traversal.")] = None,
    references: Annotated[
        Path | None,
        typer.Option(
            metavar="STORE",
            help="Store that holds the traversal to remove; not needed after build --keep-references.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to save.", show_default="MAP itself")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Add a new recording to a map, or remove a traversal, without the old images.

    Either the old or the new map is there, whatever happens.

    [bold]Examples[/]

    displace manifest 2027-01-04 -o snow.csv --against town.displace
    displace extract snow.csv
    displace update town.displace --add snow.desc
    displace update town.displace --remove rain --references route.desc
    """
    done = pipeline.update(
        map_file,
        add=add,
        traversals=traversals,
        remove=remove,
        references=references,
        output=output,
        overwrite=overwrite,
    )
    console_maps.show_update(out, done, output or map_file)


@app.command()
def advise(
    store: Store,
    traversals: Traversals = None,
    exclude: Exclude = None,
    tolerance: Tolerance = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which fusion to use and which recordings help, by leaving out one traversal at a time.

    [bold]Examples[/]

    displace advise route.desc
    displace advise route.desc --exclude fog --json
    """
    with console.bars(err) as bars:
        advice = pipeline.advise(
            store, traversals=traversals, exclude=exclude, tolerance=tolerance, progress=bars.stage
        )
    if as_json:
        console.show_json(out, advice.to_json())
    else:
        out.print(advice_table(advice))


@app.command()
def export(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A map, or a descriptor store.")],
    to: Annotated[str, typer.Option(help="hloc, vme, geojson, csv, faiss or onnx.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File or folder to write.")],
    queries: Annotated[
        Path | None, typer.Option(metavar="STORE", help="Locate these in the map, and write what is found.")
    ] = None,
    traversal: Annotated[
        str | None, typer.Option(help="Queries: which traversal.", show_default="all")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Places for each query.")] = 5,
    crs: Annotated[
        str | None, typer.Option(help="geojson of a map in metres: what they are, such as EPSG:32633.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a map, located queries or descriptors for another program.

    [bold]Examples[/]

    displace export town.displace --to onnx -o town.onnx
    displace export town.displace --to faiss -o town.faiss
    displace export town.displace --to hloc --queries night.desc -k 10 -o pairs.txt
    displace export town.displace --to geojson --queries night.desc -o night.geojson
    displace export route.desc --to hloc -o features.h5
    displace export route.desc --to vme --traversal night -o logs
    """
    written = pipeline.export(
        source, to, output, queries=queries, traversal=traversal, k=k, crs=crs, overwrite=overwrite
    )
    for path in written:
        out.print(str(path), highlight=False, markup=False, soft_wrap=True)
