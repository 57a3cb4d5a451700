"""Settings of the whole suite: an example of hypothesis may take as long as a busy machine makes it take."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("pliant", settings.default, deadline=None)
settings.load_profile("pliant")
