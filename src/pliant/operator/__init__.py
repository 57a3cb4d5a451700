"""The Kubernetes operator: turns ElasticJobs into masters, and the masters' ScalePlans into Pods.

kopf watches ElasticJobs, ScalePlans and Pods and fills the ``store``; it acts on nothing. For each job a ``keeper`` looks at
what is there, asks pure functions what to do (``job_decisions``, ``plan_decisions``), and has the ``executor`` do it, one
thing after the other. Nothing that matters is remembered: an operator that is started again looks, and goes on.

One operator acts at a time, the one that holds the ``lease``; every write is checked against the time it has left.
"""
