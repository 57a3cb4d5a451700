"""The simulator: jobs, machines and hardships on a virtual clock, planned by the real algorithms.

``truth/`` is how fast and how large a job really is, in ways that no fitted model has. ``cluster.py`` is the machines,
``fleet.py`` drives the real node state machine (``core/nodes/book.py``) against them, ``job.py`` is one simulated job and
``simulation.py`` the event loop over all of them. ``policies/`` decide: the real planner, baselines of the literature, and the
oracle, which knows the truth. ``scenario.py`` reads a scenario, ``measures.py`` judges what happened and ``report/`` shows it.
"""
