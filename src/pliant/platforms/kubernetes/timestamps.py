"""Times as Kubernetes writes them: RFC 3339, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(moment: str | None, default: float = 0.0) -> float:
    """Since the epoch; the default where there is no time, or none that can be read."""
    try:
        return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() if moment else default
    except ValueError:
        return default
