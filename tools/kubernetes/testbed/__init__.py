"""A real Kubernetes on this machine, for tests: servers built by ``build.sh``, and as many of them at once as one likes.

A cluster is a small world of its own: one process holds a network, a process and a mount namespace, and everything else
lives inside. What it listens on, routes, bridges or mounts is nowhere else, and when the holder dies the kernel takes all
of it away. A keeper on the outside watches the cluster's owner and ends the holder when the owner is gone.

    with Cluster.up(nodes=2) as cluster:
        subprocess.run(["kubectl", "--kubeconfig", cluster.kubeconfig, "get", "nodes"])
"""

from __future__ import annotations

from tools.kubernetes.testbed.cluster import Cluster as Cluster
from tools.kubernetes.testbed.ready import missing as missing
from tools.kubernetes.testbed.runs import sweep as sweep

__all__ = ["Cluster", "missing", "sweep"]
