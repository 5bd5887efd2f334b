"""CSV: located images, or the places of a map, as a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from displace.files.outputs import cell_text, write_text
from displace.files.reading import PathLike
from displace.interop._points import PointExporter, PointTable, numbers
from displace.interop._utm import as_degrees
from displace.manifest.csv_file import number_text


class CsvTable(PointExporter):
    """CSV table: located images with confidence, or the places of a map."""

    @staticmethod
    def write(table: PointTable, path: PathLike, crs: str | None) -> list[Path]:
        """Write a table as CSV, positions as they are and, with `crs`, in degrees as well."""
        columns = dict(table.columns)
        if table.positions is not None:
            found = dict(table.positions.columns())
            if crs is not None:
                found |= dict(zip(("latitude", "longitude"), as_degrees(table.positions, crs).T, strict=True))
            columns |= {name: numbers(name, values) for name, values in found.items()}
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in zip(*columns.values(), strict=True))
        write_text(path, text.getvalue())
        return [Path(path)]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return number_text(value) if isinstance(value, float) else cell_text(str(value))
