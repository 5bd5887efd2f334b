"""Text files for other programs, written atomically, with helpful errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from displace.errors import InputError
from displace.files.atomic import make_folder, replacing
from displace.files.reading import PathLike


@contextmanager
def output_file(path: PathLike) -> Iterator[Path]:
    """Give the name of a temporary file to write, which becomes `path` when the block ends without an error.

    Folders on the way to `path` are made.
    """
    make_folder(Path(path).parent)
    with replacing(path) as temporary:
        yield temporary


def write_text(path: PathLike, text: str) -> None:
    """Write UTF-8 text, with the line ends that it has."""
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 20) : error.start + 20]
        raise InputError(
            f"cannot write {path}: a name is not valid text, at {around!r}; rename that file"
        ) from None
    with output_file(path) as temporary:
        temporary.write_bytes(content)


def cell_text(text: str) -> str:
    """Text as a cell of a table: spreadsheets would evaluate a cell that begins like a formula.

    >>> cell_text("=1+1"), cell_text("-1.5"), cell_text("sun")
    ("'=1+1", '-1.5', 'sun')
    """
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
