"""The traits of Ray; apart from ``platform``, which starts a client of Ray."""

from __future__ import annotations

from pliant.platforms.traits import PlatformTraits

TRAITS = PlatformTraits(restarts_master=True, encrypts_by_default=True)
