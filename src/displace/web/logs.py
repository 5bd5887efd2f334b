"""Logs as JSON, one object a line: what was asked and how it went, never what was sent."""

from __future__ import annotations

import copy
import json
import logging
from datetime import UTC, datetime
from typing import Any


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object; ``extra={"fields": {...}}`` adds to it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_config() -> dict[str, Any]:
    """What uvicorn is told about logging: its own lines as ever, those of the map server as JSON on stderr."""
    from uvicorn.config import LOGGING_CONFIG

    config = copy.deepcopy(LOGGING_CONFIG)
    config["formatters"]["json"] = {"()": JsonLines}
    config["handlers"]["json"] = {"class": "logging.StreamHandler", "formatter": "json"}
    config["loggers"]["displace.serve"] = {"handlers": ["json"], "level": "INFO", "propagate": False}
    return config
