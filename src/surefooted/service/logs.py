"""Logs as lines of JSON on standard error: time, level, what happened, and facts about it."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any


class JsonLines(logging.Formatter):
    """One JSON object for each record; facts are in `extra={"told": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(), "logger": record.name, "event": record.getMessage(),
        }  # fmt: skip
        told |= getattr(record, "told", {})
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=True, default=str)


def configure(level: str = "info") -> None:
    """Log to standard error, this package and the server alike; nothing else is logged."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("surefooted", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.access").disabled = True  # ours says more, and less
