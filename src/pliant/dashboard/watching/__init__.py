"""Following jobs for whoever looks at them: one poller per subject, however many tabs; none without a viewer.

A ``Subject`` keeps the newest version of each of its documents, and the difference to the one before; ``JobSubject``,
``JobsSubject`` and ``ClusterSubject`` know how to make them. ``stream`` sends a tab what it has not seen yet.
"""
