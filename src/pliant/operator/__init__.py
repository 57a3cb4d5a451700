"""The Kubernetes operator: turns ElasticJobs into masters, and the masters' ScalePlans into Pods.

kopf watches ElasticJobs, ScalePlans and Pods and fills the ``store``; it writes nothing. For each job a ``reconciler`` takes the
observed state, asks pure functions what to do (``job_decisions``, ``plan_decisions``), and has the ``executor`` carry it out, one
action after the other. Reconciliation is level-triggered: an operator that restarts lists, compares and continues.

One operator leads at a time, the one that holds the ``lease``; every write is fenced by the time that the lease has left.
"""
