"""The verb that reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from displace import pipeline
from displace.cli import console
from displace.cli.app import app
from displace.cli.console import err, out


@app.command()
def report(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="A folder made by displace bench or evaluate -o.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="HTML file; replaced where it exists.")
    ] = Path("report.html"),
    studies: Annotated[
        str,
        typer.Option(help="Studies to run first: all, or compression, tau, qualitative, space, cost."),
    ] = "",
    query: Annotated[
        str | None, typer.Option(help="Query traversal of the studies.", show_default="each data set's first")
    ] = None,
    root: Annotated[Path, typer.Option(help="Folder of the descriptor stores, which studies read.")] = Path(),
    after_fusion: Annotated[
        bool, typer.Option("--after-fusion", help="Study compression: project after fusion, not before.")
    ] = False,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the studies' figures, for print.", show_default="none")
    ] = None,
    formats: Annotated[str, typer.Option(help="Of the figures: pdf, png, svg.")] = "pdf,png",
    title: Annotated[str | None, typer.Option(help="Heading.", show_default="the data sets")] = None,
    megabytes: Annotated[float, typer.Option(help="Budget of the pictures; 0 for none.")] = 15.0,
) -> None:
    """Write one HTML file: summary, tables, studies, every query with its pictures.

    The file needs nothing else, no network either. Studies are kept in the
    results folder: run again, only missing ones are computed.

    [bold]Examples[/]

    displace report results -o report.html
    displace report results --studies all --query night
    displace report results --studies tau,cost --figures figures --formats pdf
    displace report results --megabytes 5 --title "Our campus, winter"
    """
    with console.bars(err) as bars:
        done = pipeline.report(
            results,
            output,
            studies=studies,
            query=query,
            root=root,
            after_fusion=after_fusion,
            figures=figures,
            formats=tuple(name.strip() for name in formats.split(",")),
            title=title,
            megabytes=megabytes,
            progress=bars.stage,
        )
    studied = "1 study" if done.n_studies == 1 else f"{done.n_studies:,} studies"
    out.print(
        f"{done.path}: {decimal(done.n_bytes)}, {done.n_results:,} cells, {studied}, "
        f"{done.n_pictures:,} pictures ({decimal(done.picture_bytes)})",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
