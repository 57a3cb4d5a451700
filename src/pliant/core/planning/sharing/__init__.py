"""How the jobs of one quota share it, and the book of what was granted to whom.

``demand.py`` has the values, ``share_quota.py`` decides (with ``admission.py`` and ``growth.py``), ``grants.py`` turns shares into
grants so that a quota is never exceeded on the way, and ``options.py`` makes the demand of a job from its history (needs numpy;
the rest does not).
"""
