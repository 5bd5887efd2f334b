"""Methods: a fusion with its parameters, as a row of a table."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from displace.arrays import check_count, plain
from displace.errors import InputError
from displace.fusion import FUSIONS, get_fusion
from displace.fusion.base import Fusion
from displace.fusion.single import Single
from displace.registry import check_known, unknown
from displace.sequence import SEQUENCES

GROUPS = {"single": "single reference", "score": "score level", "descriptor": "descriptor level"}
"""Groups of methods in the order of the tables, with their names."""
ALONE = "single_frame"
"""The sequence method that ranks each frame by itself."""
ADAPTS = ("none", "batch")


@dataclass(frozen=True)
class Method:
    """One row of a table, or one for each reference traversal.

    >>> [row.label for row in Method("single", each_reference=True).rows(["sun", "rain"])]
    ['sun', 'rain']
    >>> Method("displace", {"tau": 1.0}).make()
    DisPlace(tau=1.0)
    >>> Method("displace", sequence="seqslam", length=5, adapt="batch").label
    'DisPlace, seqslam L=5, adapted'
    """

    fusion: str
    """Registry name."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """For ``get_fusion(fusion)(**parameters)``."""
    label: str = ""
    """Name in tables; by default the fusion's title, with its name where a fusion of this package has that title."""
    each_reference: bool = False
    """One row for each reference traversal, which becomes the parameter `traversal` and the row's label."""
    sequence: str = ALONE
    """Sequence method that ranks the queries as frames of a drive; by default each is ranked by itself."""
    length: int | None = None
    """Frames that it looks at."""
    adapt: str = "none"
    """One of "none", "batch". Whether the queries, as a batch of one condition, adapt the scores."""

    def __post_init__(self) -> None:
        for name in ("parameters", "length"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        made = get_fusion(self.fusion)
        known = list(inspect.signature(made).parameters)
        if self.each_reference and "traversal" not in known:
            raise InputError(
                f"each_reference is for fusions with the parameter 'traversal', as single; '{self.fusion}' has none"
            )
        for name in self.parameters:
            if name not in known:
                raise InputError(
                    unknown(f"parameter of the fusion '{self.fusion}'", name, known)
                    if known
                    else f"the fusion '{self.fusion}' has no parameters; got {name}={self.parameters[name]!r}"
                )
        if not self.label:
            object.__setattr__(self, "label", _title_of(self.fusion))
        if made.level not in GROUPS:
            raise InputError(
                f"the fusion '{self.fusion}' has level={made.level!r}; it must be 'descriptor' or 'score'"
            )
        if self.adapt not in ADAPTS:
            raise InputError(unknown("adapt", self.adapt, ADAPTS))
        if self.length is not None:
            check_count(self.length, "length")
        suffix = "" if self.sequence == ALONE else f", {SEQUENCES.get(self.sequence)(self.length).label}"
        suffix += ", adapted" if self.adapt != "none" else ""
        if not self.label.endswith(suffix):
            object.__setattr__(self, "label", self.label + suffix)

    @property
    def along(self) -> bool:
        """Whether queries are ranked together, as frames of a drive or as a batch, and not one by one."""
        return self.sequence != ALONE or self.adapt != "none"

    @property
    def group(self) -> str:
        """Key of `GROUPS`."""
        made = get_fusion(self.fusion)
        return "single" if issubclass(made, Single) else made.level

    @property
    def source(self) -> str:
        """Digest of the code of a fusion or sequence method from outside; empty for those of this package."""
        return _source_digest(get_fusion(self.fusion)) + _source_digest(SEQUENCES.get(self.sequence))

    def make(self) -> Fusion:
        """Return the unfitted fusion."""
        return get_fusion(self.fusion)(**self.parameters)

    def rows(self, references: Sequence[str]) -> list[Method]:
        """Return the rows it makes for these reference traversals."""
        if not self.each_reference:
            return [self]
        return [
            replace(self, parameters={**self.parameters, "traversal": name}, label=name, each_reference=False)
            for name in references
        ]


def methods_named(
    names: str | Sequence[str] = "all", sequences: Sequence[str] = (ALONE,), adapts: Sequence[str] = ("none",)
) -> list[Method]:
    """Return fusions with their default parameters: "all" that there are, plug-ins among them, or those named.

    Sorted as in tables: single reference, score level, descriptor level, DisPlace last; each once for every sequence
    method and way of adapting.
    """
    wanted = list(FUSIONS.usable()) if names == "all" else [names] if isinstance(names, str) else list(names)
    methods = [
        Method(name, sequence=sequence, adapt=mode)
        for name in dict.fromkeys(wanted)
        for sequence in dict.fromkeys(sequences)
        for mode in dict.fromkeys(adapts)
    ]
    groups = list(GROUPS)
    return sorted(methods, key=lambda method: (groups.index(method.group), method.fusion == "displace"))


def _title_of(fusion: str) -> str:
    """Title of a fusion, told apart from those of this package: a copied class may have kept its title."""
    title = get_fusion(fusion).title
    own = () if FUSIONS.ships(fusion) else filter(FUSIONS.ships, FUSIONS.names())
    return f"{title} ({fusion})" if any(get_fusion(name).title == title for name in own) else title


@cache
def _source_digest(made: type[Any]) -> str:
    """Digest of the modules that define a class and what it inherits from its own package; empty without source."""
    package = made.__module__.partition(".")[0]
    if package == __name__.partition(".")[0]:
        return ""
    names = {c.__module__ for c in made.__mro__ if c.__module__.partition(".")[0] == package}
    try:
        texts = [inspect.getsource(sys.modules[name]) for name in sorted(names)]
    except (OSError, TypeError, KeyError):  # compiled, or typed into an interpreter
        return ""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def method_of(record: Mapping[str, Any]) -> Method:
    """Return the method of a table in a suite file."""
    known = ("fusion", "label", "parameters", "each_reference", "sequence", "length", "adapt")
    check_known("key", record, known)
    if not isinstance(record.get("fusion"), str):
        raise InputError(
            f"fusion={record.get('fusion')!r} must be the name of a fusion: {', '.join(FUSIONS.names())}"
        )
    return Method(**record)
