"""The algorithms that plan a job's resources, one small module each; ``registry.py`` has them by name.

Each is a pure function from ``JobHistory`` and the time to a ``Proposal`` or None. ``plan_job`` and ``probe`` use the fits and
need numpy; the registry imports an algorithm when it is asked for it.
"""
