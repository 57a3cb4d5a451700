"""Whether this machine can run a cluster, and where the servers are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pliant" / "kubernetes-1.20.2"
BINARIES = Path(os.environ.get("KUBE_CACHE") or CACHE) / "bin"
TOOLS = ("etcd", "containerd", "ctr", "runc", "ip", "iptables", "conntrack", "nsenter", "unshare", "setpriv", "kubectl")
HOW = "enable with: make kubernetes-testbed"


def missing() -> str:
    """Why there can be no cluster here, and what to do about it; empty if there can."""
    if os.geteuid() != 0:
        return "the Kubernetes testbed needs root (namespaces, cgroups)"
    if not Path("/sys/fs/cgroup/memory").is_dir():
        return "the Kubernetes testbed needs cgroup v1 controllers, as its kubelet does"
    if not (BINARIES / ".complete").exists():
        return f"no Kubernetes servers are built; {HOW}"
    if absent := [tool for tool in TOOLS if shutil.which(tool, path=search_path()) is None]:
        return f"{', '.join(absent)} not installed; {HOW}"
    return ""


def search_path() -> str:
    """Debian keeps some of the tools where only root looks."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
