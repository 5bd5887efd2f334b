"""Exceptions and warnings of the package: each says what is wrong and how to fix it."""

import traceback
from itertools import pairwise
from pathlib import Path


class DisplaceError(Exception):
    """Base of every exception raised on purpose by this package."""


class InputError(DisplaceError, ValueError):
    """Arrays or arguments that cannot be used."""


class SingularScatterError(InputError):
    """The within-place scatter is singular and no ridge was allowed."""


class StudyError(InputError):
    """A study that is not possible for these references; others may be."""


class UnknownNameError(DisplaceError, LookupError):
    """A name that is not registered."""


class PluginError(DisplaceError):
    """A plug-in of another package that cannot be loaded or does not fit."""


class MissingExtraError(DisplaceError, ImportError):
    """An optional dependency is needed and not installed."""


class ManifestError(DisplaceError):
    """A manifest with problems.

    Parameters
    ----------
    message : str
        What was being done.
    problems : sequence of str
        Every problem found, with its line if there is one. The message shows the first 50.
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
    """A database that cannot be reached, lacks the map or denies access."""


class WriteError(DisplaceError, OSError):
    """A file or folder that cannot be written."""

    def __init__(self, path: object, why: "str | OSError") -> None:
        text = why if isinstance(why, str) else why.strerror or str(why)
        if "requested and" in text:  # numpy's message for a full disk
            text = f"the disk took only a part ({text})"
        Exception.__init__(self, str(path), text)
        self.strerror = text  # for callers that name another file

    def __reduce__(self) -> "tuple[type[WriteError], tuple[object, ...]]":
        return type(self), self.args  # worker processes raise it too

    def __str__(self) -> str:
        path, why = self.args
        return f"cannot write {path}: {why}. Choose another place for it"


class ModelMismatchError(DisplaceError):
    """Queries made by another model, or prepared in another way, than the map's references."""


def why_not(error: Exception) -> str:
    """Say why something could not be done; errors from outside this package are told with their type and line."""
    if isinstance(error, DisplaceError):
        return str(error)
    frames = [
        (str(frame.f_globals.get("__name__")).partition(".")[0], Path(frame.f_code.co_filename).name, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    ours = __name__.partition(".")[0]
    # Where this package called another one, the line is that one's, and not one of a library that it uses in turn.
    culprit = ours
    for (before, *_), (after, *_) in pairwise(frames):
        culprit = after if before == ours != after else culprit
    lines = [f" ({file}, line {line})" for package, file, line in frames if package == culprit]
    return f"{type(error).__name__}: {error}{''.join(lines[-1:])}"


class DisplaceWarning(UserWarning):
    """Base of every warning issued by this package."""


class RouteWarning(DisplaceWarning):
    """The data contradict an option or a default."""


class ConditioningWarning(DisplaceWarning):
    """The references are too few for the settings."""


class FallbackWarning(ConditioningWarning):
    """A simpler fusion replaces the chosen one; `explain` says so, too."""
