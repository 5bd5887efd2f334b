"""The verb that takes descriptors of other programs: import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from displace import pipeline
from displace.cli import console
from displace.cli.app import app


@app.command("import")
def import_(
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES", help="hloc's .h5 file; or the folder of VPR-methods-evaluation's .npy arrays."
        ),
    ],
    manifest: Annotated[Path, typer.Option(help="CSV file with image, place, traversal.")],
    model: Annotated[str, typer.Option("--model", "-m", help="A name for what made the descriptors.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The store, a folder.", show_default="the manifest with .desc"),
    ] = None,
    traversals: Annotated[
        list[str] | None,
        typer.Option("--traversal", help="Take this traversal (repeat).", show_default="all"),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of images that the program was given: its names start there.",
            show_default="as in the manifest",
        ),
    ] = None,
    side: Annotated[str, typer.Option(help=".npy arrays: database or queries.")] = "database",
    dtype: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Drop the descriptors in the store and start anew.")
    ] = False,
) -> None:
    """Keep descriptors that hloc or VPR-methods-evaluation made in a store.

    Every verb takes the store. A map made of it locates stores with the same
    --model, not images: only the other program can describe those.

    [bold]Examples[/]

    displace import feats.h5 --manifest route.csv -m "hloc netvlad" -o route.desc
    displace import logs/run --manifest pitts.csv -m salad --traversal database
    """
    summary = pipeline.import_features(
        features,
        manifest,
        output,
        model=model,
        traversals=traversals,
        images=images,
        side=side,
        dtype=dtype,
        overwrite=overwrite,
    )
    console.show_store(console.out, summary)
