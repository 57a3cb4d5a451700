"""Bring real Kubernetes clusters up and down on this machine; see README.md beside this file.

eval $(python tools/kubernetes/cluster.py up --nodes 2)   # sets KUBECONFIG
kubectl get nodes
python tools/kubernetes/cluster.py down
"""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.kubernetes.testbed import runs
from tools.kubernetes.testbed.cluster import MAX_NODES, Cluster


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="cluster.py", description="Real Kubernetes clusters on this machine, for tests."
    )
    orders = parser.add_subparsers(dest="order", required=True)
    up = orders.add_parser("up", help="start a cluster and print its KUBECONFIG")
    up.add_argument("--nodes", type=int, default=0, help="real nodes; 0: a control plane alone")
    up.add_argument("--name", default="default")
    up.add_argument("--owner", type=int, default=1, metavar="PID", help="the cluster goes away with this process")
    up.add_argument("--manifest", type=Path, action="append", default=[], help="applied before the controllers start")
    down = orders.add_parser("down", help="remove a cluster, with everything it made")
    down.add_argument("--name", default="default")
    node = orders.add_parser("node", help="switch a node on, for the first time or again")
    lose = orders.add_parser("lose-node", help="cut the power of a node")
    for each in (node, lose):
        each.add_argument("number", type=int, choices=range(1, MAX_NODES + 1))
        each.add_argument("--name", default="default")
    orders.add_parser("list", help="clusters that run here")
    orders.add_parser("sweep", help="remove what killed runs left behind")
    keep = orders.add_parser("keep")  # started by ``up``
    keep.add_argument("folder", type=Path)
    keep.add_argument("--lock", type=int, required=True)
    keep.add_argument("--owner", type=int)
    asked = parser.parse_args()
    try:
        obey(asked)
    except (LookupError, FileExistsError, RuntimeError) as error:
        sys.exit(f"error: {error}")


def obey(asked: argparse.Namespace) -> None:
    if asked.order == "up":
        cluster = Cluster.up(nodes=asked.nodes, name=asked.name, owner=asked.owner, manifests=asked.manifest)
        say(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    elif asked.order == "down":
        Cluster.attach(asked.name).down()
    elif asked.order == "node":
        Cluster.attach(asked.name).start_node(asked.number)
    elif asked.order == "lose-node":
        Cluster.attach(asked.name).lose_node(asked.number)
    elif asked.order == "list":
        for run in runs.runs():
            say(f"{run.name}\t{run.facts.get('address', 'starting')}\t{run.folder}/pki/admin.kubeconfig")
    elif asked.order == "sweep":
        for name in runs.sweep():
            say(f"removed {name}")
    elif asked.order == "keep":
        logging.basicConfig(level=logging.INFO)
        os.set_inheritable(asked.lock, False)
        runs.keep(asked.folder, asked.owner)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
