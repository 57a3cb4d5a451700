"""Nodes as Pods of a cluster: what the master, the operator and the command line share about Kubernetes.

``names`` and ``kinds`` are what things are called; ``api`` with its ``errors`` is the client of the API server. ``pods``
makes a Pod of a node, ``exits`` reads a Pod's end, ``plans`` holds the custom resources; ``scaler``, ``watcher`` and
``platform`` are the platform that the master runs on.
"""
