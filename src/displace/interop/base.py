"""The interface of exporters, which write a map, located images or a descriptor store for another program."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from displace.descriptors.store import DescriptorStore
from displace.errors import InputError
from displace.maps import PlaceMap
from displace.maps.located import Located

Writer = Callable[..., list[Path]]

KINDS: dict[str, tuple[type, str]] = {
    "write_map": (PlaceMap, "a map"),
    "write_located": (Located, "a map with queries (Located)"),
    "write_store": (DescriptorStore, "a descriptor store"),
}
"""Sources by the method that writes them, and what messages call them."""


class Exporter:
    """One form of export: a file ``interop/NAME.py`` with a subclass is all that a new one needs.

    The first line of its docstring says what is written. It defines at least one of the methods `write_map`,
    `write_located` and `write_store`: each takes the source and the path, then keyword options, and returns the files
    that it wrote.
    """

    write_map: ClassVar[Any] = None
    write_located: ClassVar[Any] = None
    write_store: ClassVar[Any] = None

    @classmethod
    def about(cls) -> str:
        """What is written, in a line."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    @classmethod
    def takes(cls) -> list[type]:
        """Types of the sources that it can write."""
        return [kind for method, (kind, _) in KINDS.items() if getattr(cls, method)]

    @classmethod
    def writer(cls, source: object) -> tuple[Writer, str]:
        """The method for a source, and the source's name in messages; raises InputError if there is none."""
        for method, (kind, label) in KINDS.items():
            # A type is accepted in place of an object, so that options can be listed without one.
            if isinstance(source, kind) or (isinstance(source, type) and issubclass(source, kind)):
                writer: Writer | None = getattr(cls, method)
                if writer is not None:
                    return writer, label
                break
        else:
            label = type(source).__name__
        takes = " or ".join(label for method, (_, label) in KINDS.items() if getattr(cls, method))
        raise InputError(f"this export takes {takes}, not {label} ({cls.about()})")

    @classmethod
    def options(cls, source: object) -> dict[str, bool]:
        """Options for a source or its type, and whether each must be given."""
        parameters = inspect.signature(cls.writer(source)[0]).parameters.values()
        return {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}
