"""One real node: a containerd and a kubelet in mount and process namespaces of their own, with cgroups of their own.

The node is the process ``unshare``. If it is killed, kubelet, containerd and all containers die at the same instant, as when a
machine loses power; started again with the same folder it is the same machine after a reboot.

The kubelet wants to set three of the machine's kernel settings. On a node they are plain files mounted over the real
ones, so nothing outside changes and nothing needs to be restored.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

from tools.kubernetes.testbed import images
from tools.kubernetes.testbed.ready import BINARIES, search_path
from tools.kubernetes.testbed.runs import CGROUPS, Run
from tools.kubernetes.testbed.servers import PODS

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids", "systemd", "devices", "freezer", "blkio")
SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
FIRST_PORT = 10250  # of node 0; all nodes share the cluster's network namespace

BOOT = """\
mount --make-rprivate / && mount -t proc proc /proc
for setting in {settings}; do
  cp "/proc/sys/$setting" "{home}/$(basename "$setting")" && mount --bind "{home}/$(basename "$setting")" "/proc/sys/$setting"
done
mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p /run/netns && mount --bind {home}/log /var/log || exit 1
containerd -c {home}/containerd.toml >>{home}/containerd.log 2>&1 &
until ctr -a /run/containerd/containerd.sock version >/dev/null 2>&1; do
  kill -0 $! || exit 1
  sleep 0.05
done
for image in {images}/*.tar; do ctr -a /run/containerd/containerd.sock -n k8s.io images import "$image" >/dev/null; done
while :; do  # as a service manager would
  {kubelet} >>{home}/kubelet.log 2>&1
  sleep 1
done
"""

CONTAINERD = """\
version = 2
root = "{home}/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true  # root of a virtual machine may lack the right
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{home}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "{home}/base.json"
"""


def start(run: Run, number: int, memory_mb: int, labels: dict[str, str]) -> subprocess.Popen[bytes]:
    """Switch a node on; it registers itself with the API server when it is up."""
    home = run.folder / f"node{number}"
    for folder in ("log", "containerd", "cni", "kubelet"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    cgroup = f"{run.cgroup}/node{number}"
    _make_cgroups(cgroup)
    (home / "containerd.toml").write_text(CONTAINERD.format(home=home, pause=images.PAUSE))
    (home / "cni" / "10-testbed.conflist").write_text(json.dumps(_network(run)))
    (home / "kubelet.json").write_text(json.dumps(_kubelet(run, number, cgroup, memory_mb)))
    (home / "base.json").write_text(json.dumps(_container_spec()))
    boot = BOOT.format(
        home=home,
        settings=" ".join(SETTINGS),
        images=run.folder / "images",
        kubelet=" ".join(_kubelet_command(run, number, labels)),
    )
    (home / "boot.sh").write_text(boot)
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", str(home / "boot.sh")]
    with (home / "boot.log").open("ab") as log:
        return subprocess.Popen(
            run.inside(*unshare),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PATH": search_path()},
            start_new_session=True,
        )


def _make_cgroups(path: str) -> None:
    for controller in CONTROLLERS:
        if (CGROUPS / controller).is_dir():
            (CGROUPS / controller / path).mkdir(parents=True, exist_ok=True)
    place = CGROUPS / "cpuset"
    for part in Path(path).parts:  # empty in a new cgroup, and then nothing may run in it
        for file in ("cpuset.cpus", "cpuset.mems"):
            (place / part / file).write_text((place / file).read_text())
        place /= part


def _container_spec() -> dict[str, Any]:
    """What every container starts from: containerd's own default, and what it sees of this machine."""
    env = {**os.environ, "PATH": search_path()}
    done = subprocess.run(["ctr", "oci", "spec"], capture_output=True, check=True, env=env, timeout=60)
    spec: dict[str, Any] = json.loads(done.stdout)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # more than this machine gives cannot be had
    spec["process"]["rlimits"] = [{"type": "RLIMIT_NOFILE", "hard": hard, "soft": soft}]
    for inside, here in images.mounts().items():
        mount = {"destination": str(inside), "source": str(here), "type": "bind", "options": ["rbind", "ro"]}
        spec["mounts"].append(mount)
    return spec


def _network(run: Run) -> dict[str, Any]:
    addresses = {"type": "host-local", "dataDir": str(run.folder / "addresses"), "ranges": [[{"subnet": PODS}]]}
    ipam = {**addresses, "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "hairpinMode": True, "ipam": ipam}
    return {"cniVersion": "0.4.0", "name": "testbed", "plugins": [bridge]}


def _kubelet(run: Run, number: int, cgroup: str, memory_mb: int) -> dict[str, Any]:
    pki = run.folder / "pki"
    total_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": run.address,
        "port": FIRST_PORT + number,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "tlsCertFile": f"{pki}/kubelet.crt",
        "tlsPrivateKeyFile": f"{pki}/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "clusterDNS": ["10.96.0.10"],  # nobody is there; Pods use addresses
        "featureGates": {"DevicePlugins": False, "KubeletPodResources": False},
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "10s",
        "nodeLeaseDurationSeconds": 8,
        "syncFrequency": "10s",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "200Mi", "imagefs.available": "200Mi"},
        "evictionPressureTransitionPeriod": "10s",
        "volumeStatsAggPeriod": "5s",  # a minute by itself: so long nobody would notice a volume that is too full
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "systemReserved": {"memory": f"{max(0, total_mb - memory_mb)}Mi"},
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 50,
        "kubeAPIBurst": 100,
    }


def _kubelet_command(run: Run, number: int, labels: dict[str, str]) -> list[str]:
    home, socket = run.folder / f"node{number}", "unix:///run/containerd/containerd.sock"
    command = [
        str(BINARIES / "kubelet"),
        f"--config={home}/kubelet.json",
        f"--kubeconfig={run.folder}/pki/node{number}.kubeconfig",
        f"--hostname-override=node{number}",
        f"--node-ip={run.address}",
        f"--root-dir={home}/kubelet",
        f"--cert-dir={home}/kubelet/pki",
        "--container-runtime=remote",
        f"--container-runtime-endpoint={socket}",
        f"--image-service-endpoint={socket}",
    ]
    if labels:
        command.append("--node-labels=" + ",".join(f"{key}={value}" for key, value in labels.items()))
    return command
