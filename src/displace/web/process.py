"""How the processes of a server are set up: logs as JSON, one object a line, and memory that is given back.

The logs say what was asked and how it went, never what was sent.
"""

from __future__ import annotations

import copy
import ctypes
import json
import logging
import sys
import warnings
from datetime import UTC, datetime
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Of malloc.h."""
LARGE = 2**20
"""Bytes that a server gives back at once: those of an image of a third of a megapixel and more."""
LARGE_FOR_WORKER = 16 * 2**20
"""The same for processes that only read images, and end when they are idle: of four megapixels and more."""
_as_json = json.JSONEncoder(ensure_ascii=False).encode


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object; ``extra={"fields": {...}}`` adds to it.

    ``extra={"lines": [(time, fields), ...]}`` makes a line of each: records that were gathered.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, or the lines."""
        same = {"level": record.levelname.lower(), "event": record.getMessage()}
        if record.exc_info:
            same["error"] = self.formatException(record.exc_info)
        lines = getattr(record, "lines", None) or [(record.created, getattr(record, "fields", {}))]
        return "\n".join(_as_json({"time": _time(when), **same, **fields}) for when, fields in lines)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def leave_out_pillow() -> None:
    """Keep Pillow's warnings out of the log: a damaged image is answered for, and may have a hundred of them."""
    warnings.filterwarnings("ignore", module=r"PIL\.")


def log_config() -> dict[str, Any]:
    """Logging options of uvicorn: its own lines as usual, those of the map server as JSON on stderr."""
    from uvicorn.config import LOGGING_CONFIG

    config = copy.deepcopy(LOGGING_CONFIG)
    config["formatters"]["json"] = {"()": JsonLines}
    config["handlers"]["json"] = {"class": "logging.StreamHandler", "formatter": "json"}
    config["loggers"]["displace.serve"] = {"handlers": ["json"], "level": "INFO", "propagate": False}
    return config


def return_memory(large: int = LARGE) -> None:
    """Let the memory of images go back to the system when they are forgotten (Linux with glibc).

    Its allocator would keep what the largest ones took, in pieces: a quarter more after ten thousand uploads. What the
    small ones take stays: to give it back and take it again costs a sixth of the time of an image of 320 × 240 pixels,
    and half the time of one of 1600 × 1200.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(M_MMAP_THRESHOLD, large)
            mallopt(M_TRIM_THRESHOLD, 4 * large)
            mallopt(M_ARENA_MAX, 2)
