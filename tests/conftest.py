"""Settings of the whole suite: an example of hypothesis may take as long as a busy machine makes it take.

``PLIANT_EXAMPLES``: how many examples a property is tried on that does not say it itself; more for a thorough search.
"""

from __future__ import annotations

import os

from hypothesis import settings

EXAMPLES = int(os.environ.get("PLIANT_EXAMPLES", "40"))

settings.register_profile("pliant", settings.default, deadline=None, max_examples=EXAMPLES)
settings.load_profile("pliant")
