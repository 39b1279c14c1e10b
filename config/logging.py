"""One JSON line per log record: `runworker` to stdout, every other process to stderr."""

from typing import Any

import structlog
from django.http import HttpRequest
from structlog.typing import Processor


def without_queries(_: Any, __: str, event: Any) -> Any:
    """Django's lines about a request, without what was asked for in the address."""
    request = event.pop("request", None)
    if isinstance(request, HttpRequest):
        event |= {"method": request.method, "path": request.path}
    return event


SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    without_queries,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
    structlog.processors.format_exc_info,
    structlog.processors.UnicodeDecoder(),
]


def configure(level: str, arguments: list[str]) -> dict[str, Any]:
    """Set structlog up and return Django's LOGGING for a process started with `arguments`."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *(each for each in SHARED if not isinstance(each, structlog.stdlib.ExtraAdder)),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    stream = "stdout" if "runworker" in arguments[1:2] else "stderr"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": SHARED,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.EventRenamer("message"),
                    structlog.processors.JSONRenderer(),
                ],
            },
        },
        "handlers": {
            "console": {
                "class": "logging.StreamHandler",
                "stream": f"ext://sys.{stream}",
                "formatter": "json",
            },
        },
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            # Django's own handlers would print each line a second time, as text.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
        },
    }
