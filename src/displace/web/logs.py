"""Logs as JSON, one object a line: what was asked and how it went, never what was sent."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from datetime import UTC, datetime
from typing import Any

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
    """What uvicorn is told about logging: its own lines as ever, those of the map server as JSON on stderr."""
    from uvicorn.config import LOGGING_CONFIG

    config = copy.deepcopy(LOGGING_CONFIG)
    config["formatters"]["json"] = {"()": JsonLines}
    config["handlers"]["json"] = {"class": "logging.StreamHandler", "formatter": "json"}
    config["loggers"]["displace.serve"] = {"handlers": ["json"], "level": "INFO", "propagate": False}
    return config
