"""Exceptions and warnings of the package: each says what is wrong, and what would do."""


class DisplaceError(Exception):
    """Base of every exception raised on purpose by this package."""


class InputError(DisplaceError, ValueError):
    """Arrays or arguments that cannot be used; says which, and what would do."""


class SingularScatterError(InputError):
    """The within-place scatter is singular and no ridge was allowed."""


class StudyError(InputError):
    """A study that has nothing to show of these references; others may have."""


class UnknownNameError(DisplaceError, LookupError):
    """A name that no registry entry has."""


class PluginError(DisplaceError):
    """An entry of another package that cannot be loaded, or is none; says which, and from where."""


class MissingExtraError(DisplaceError, ImportError):
    """An optional dependency is needed and not installed."""


class ManifestError(DisplaceError):
    """A manifest with problems.

    Parameters
    ----------
    message : str
        What was being done.
    problems : sequence of str
        Every problem found, each with its line where it has one. The text has the first 50 of them.
    """

    SHOWN = 50

    def __init__(self, message: str, problems: "list[str] | tuple[str, ...]" = ()) -> None:
        self.problems = tuple(problems)
        more = len(self.problems) - self.SHOWN
        rest = [f"… and {more:,} more"] if more > 0 else []
        super().__init__("\n  ".join([message, *self.problems[: self.SHOWN], *rest]))


class ImageError(DisplaceError):
    """An image, video or bag that cannot be read."""


class SkippedImagesError(ImageError):
    """A strict run met images that could not be read; all others were described."""


class DatasetError(DisplaceError):
    """A data set whose folder is not laid out as expected."""


class WeightsError(DisplaceError):
    """Model weights that are absent, corrupt or belong to another model."""


class StoreError(DisplaceError):
    """A descriptor store that cannot be opened or written."""


class FormatError(DisplaceError):
    """A map file that is damaged, foreign or of a later version."""


class DatabaseError(DisplaceError):
    """A database that cannot be reached, has no such map, or does not allow what was asked."""


class WriteError(DisplaceError, OSError):
    """A file or folder that cannot be written: what stands in the way, and the way out."""

    def __init__(self, path: object, why: "str | OSError") -> None:
        text = why if isinstance(why, str) else why.strerror or str(why)
        if "requested and" in text:  # what numpy says of a full disk
            text = f"the disk took only a part ({text})"
        Exception.__init__(self, str(path), text)
        self.strerror = text  # for whoever names another file instead

    def __reduce__(self) -> "tuple[type[WriteError], tuple[object, ...]]":
        return type(self), self.args  # worker processes raise it too

    def __str__(self) -> str:
        path, why = self.args
        return f"cannot write {path}: {why}. Make room or choose another place for it"


class ModelMismatchError(DisplaceError):
    """Queries made by another model, or prepared in another way, than the map's references."""


class DisplaceWarning(UserWarning):
    """Base of every warning issued by this package."""


class RouteWarning(DisplaceWarning):
    """What a route tells speaks against what was asked for, or against a default."""


class ConditioningWarning(DisplaceWarning):
    """The references are too few for the settings asked for."""


class FallbackWarning(ConditioningWarning):
    """A simpler fusion takes the place of the one asked for; its `explain` says so too."""
