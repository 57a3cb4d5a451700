"""How much time one sample stands for, in seconds: the ``resolution`` of samples."""

from __future__ import annotations

RAW = 0  # as it was reported
MINUTE = 60
HOUR = 3600
EARLIER = -1  # everything before the hours that are kept: one sample per job
