"""Registries: one file is one entry, named after the file and imported on demand.

A registry looks into one sub-package (``displace.fusion``, ``displace.models`` …). The entry ``hops`` is the
one subclass of the registry's base class that ``fusion/hops.py`` defines. Packages outside of this one add
entries through the entry-point group ``displace.fusion`` (``displace.models`` …).
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import logging
import pkgutil
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from displace.errors import MissingExtraError, PluginError, UnknownNameError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Registry(Generic[T]):
    """The entries of one kind, such as "fusion": the classes in the files of a sub-package, and those of entry points.

    `package` is the sub-package, and the entry-point group; `base` is the name of the base class, defined in
    ``package.base``. With `packages`, a sub-package is an entry too, its class being defined in its ``__init__``.
    `files` are entries whose file has another name, because another file of the package has theirs.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        base: str,
        packages: bool = False,
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.kind, self.package, self.base, self.packages = kind, package, base, packages
        self.files = dict(files or {})
        self._found: dict[str, type[T]] = {}

    def names(self) -> list[str]:
        """Sorted names of all entries, without importing any of them."""
        return sorted({*self._own_names(), *self._plugins()})

    def __repr__(self) -> str:
        return f"<Registry of {self.package}: {', '.join(self.names())}>"

    def ships(self, name: str) -> bool:
        """Whether an entry is this package's own, and not one of another."""
        return name in self._own_names()

    def get(self, name: str) -> type[T]:
        """Import and return the class named `name`."""
        if name in self._found:  # installed packages are not searched with every query
            return self._found[name]
        if name in self._own_names():
            self._found[name] = self._class_in(f"{self.package}.{self.files.get(name, name)}")
            return self._found[name]
        plugins = self._plugins()
        if name in plugins:
            return self._loaded(plugins[name])
        raise UnknownNameError(unknown(self.kind, name, self.names()))

    def usable(self) -> dict[str, type[T]]:
        """Import all entries, by name; those of other packages that cannot be used are named in a warning."""
        found = {}
        for name in self.names():
            try:
                found[name] = self.get(name)
            except PluginError as error:
                logger.warning("left out: %s", error)
        for plugin in self._hidden():
            logger.warning(
                "left out: the %s '%s' of another package (%s) has the name of another entry; rename its entry point",
                self.kind,
                plugin.name,
                plugin.value,
            )
        return found

    def name_of(self, entry: type[Any]) -> str:
        """Name of an entry's class; of one that is not registered its module and name, ``my_module:Mine``."""
        package, _, name = entry.__module__.rpartition(".")
        if package == self.package:
            return name
        for name, plugin in self._plugins().items():
            if plugin.value == f"{entry.__module__}:{entry.__qualname__}":
                return name
        return f"{entry.__module__}:{entry.__qualname__}"

    def _own_names(self) -> list[str]:
        names = {file: name for name, file in self.files.items()}
        return [
            names.get(m.name, m.name)
            for m in pkgutil.iter_modules(importlib.import_module(self.package).__path__)
            if (self.packages or not m.ispkg) and m.name != "base" and not m.name.startswith("_")
        ]

    def _plugins(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points  # takes a tenth of the time of `displace --help`

        return {entry.name: entry for entry in entry_points(group=self.package)}

    def _hidden(self) -> list[EntryPoint]:
        """Entry points that another entry of the same name hides."""
        from importlib.metadata import entry_points

        own, chosen = self._own_names(), self._plugins()
        return [
            entry
            for entry in entry_points(group=self.package)
            if entry.name in own or entry.value != chosen[entry.name].value
        ]

    def _loaded(self, plugin: EntryPoint) -> type[T]:
        """The class of an entry of another package."""
        about = f"the {self.kind} '{plugin.name}' of another package ({plugin.value})"
        try:
            found: type[T] = plugin.load()
        except Exception as error:  # whatever another package does when it is imported
            raise PluginError(
                f"{about} cannot be loaded: {type(error).__name__}: {error}. Mend or uninstall that package"
            ) from error
        if not inspect.isclass(found) or not issubclass(found, self._base()) or inspect.isabstract(found):
            missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
            raise PluginError(
                f"{about} must be a class that inherits from {self.package}.base.{self.base}"
                + (f" and defines {missing}" if missing else f"; got {found!r}")
            )
        asked = inspect.get_annotations(self._base())
        if lacks := [
            n for n, kind in asked.items() if str(kind).startswith("ClassVar") and not hasattr(found, n)
        ]:
            raise PluginError(f"{about} must define {', '.join(lacks)}")
        if (name := getattr(found, "name", plugin.name)) != plugin.name:
            raise PluginError(f"{about} has name={name!r}; it must be that of the entry point")
        return found

    def _base(self) -> type[Any]:
        base: type[Any] = getattr(importlib.import_module(f"{self.package}.base"), self.base)
        return base

    def _class_in(self, module_name: str) -> type[T]:
        base = self._base()
        module = importlib.import_module(module_name)
        classes: list[Any] = [
            member
            for _, member in inspect.getmembers(module, inspect.isclass)
            if member.__module__ == module_name
            and issubclass(member, base)
            and not inspect.isabstract(member)
        ]
        if len(classes) != 1:
            raise TypeError(f"{module_name} must define exactly one {self.base}; it defines {len(classes)}")
        found: type[T] = classes[0]
        return found


def check_known(kind: str, wanted: Iterable[str], names: Iterable[str]) -> None:
    """Raise `UnknownNameError` for the first wanted name that is not known."""
    known = list(names)
    for name in wanted:
        if name not in known:
            raise UnknownNameError(unknown(kind, name, known))


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """Message for an unknown name, with the nearest known one.

    >>> unknown("fusion", "hop", ["hops", "pooling"])
    "unknown fusion 'hop'; did you mean 'hops'? Known: hops, pooling"
    >>> unknown("query", "NIGHT", ["night", "Sun"])
    "unknown query 'NIGHT'; did you mean 'night'? Known: night, Sun"
    >>> unknown("traversal", "sun,rain", ["rain", "snow", "sun"])
    "unknown traversal 'sun,rain'; repeat the option for each of several. Known: rain, snow, sun"
    """
    names = list(names)
    if "," in name and all(part.strip() in names for part in name.split(",")):
        return f"unknown {kind} '{name}'; repeat the option for each of several. Known: {', '.join(names)}"
    if same := looks_the_same(name, names):
        return f"unknown {kind} '{name}'{same} Known: {', '.join(names)}"
    lower = {known.lower(): known for known in reversed(names)}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    hint = f"; did you mean '{lower[near[0]]}'?" if near else "."
    return f"unknown {kind} '{name}'{hint} Known: {', '.join(names)}"


def looks_the_same(name: object, names: Iterable[object]) -> str:
    """Say that a name looks like a known one and is other characters, as "ü" and "u" with dots are; "" if not."""
    written = {str(known) for known in names}
    composed = {unicodedata.normalize("NFC", known) for known in written}
    if str(name) in written or unicodedata.normalize("NFC", str(name)) not in composed:
        return ""
    return (
        ": one looks the same, but its accents are characters of their own (as in names of files from macOS); "
        "copy the name from here."
    )


def import_extra(module: str, extra: str, package: str = "") -> Any:
    """Import an optional dependency; raise `MissingExtraError` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise missing_extra(package or module, extra) from None


def missing_extra(package: str, extra: str, who: str = "") -> MissingExtraError:
    """Error for an optional dependency that is not installed, and who needs it.

    >>> str(missing_extra("faiss-cpu", "faiss"))
    "needs 'faiss-cpu': pip install 'displace[faiss]'"
    """
    return MissingExtraError(f"{who} needs '{package}': pip install 'displace[{extra}]'".lstrip())
