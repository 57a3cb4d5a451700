"""The servers of the control plane, each a command; they all run inside the cluster's namespaces."""

from __future__ import annotations

import json
from pathlib import Path

from tools.kubernetes.testbed.pki import PORT
from tools.kubernetes.testbed.ready import BINARIES

ETCD = "http://127.0.0.1:2379"
SERVICES = "10.96.0.0/16"
FIRST_SERVICE = "10.96.0.1"  # the API server's own
PODS = "10.88.0.0/16"
# A node that is silent for so long is lost, and its Pods are deleted so much later. A cluster in earnest has 40 and 300.
NODE_GRACE, POD_GRACE = 8, 4

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}


def etcd() -> list[str]:
    """Its data is in the cluster's own /run, which is memory: no disk is waited for."""
    peer = "http://127.0.0.1:2380"
    return [
        "etcd",
        "--data-dir=/run/etcd",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--auto-compaction-retention=10m",
    ]


def api_server(folder: Path, address: str, audit_log: Path | None) -> list[str]:
    pki = folder / "pki"
    audit = []
    if audit_log is not None:
        policy = folder / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        audit = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}", "--audit-log-maxsize=4096"]
    return [
        str(BINARIES / "kube-apiserver"),
        f"--etcd-servers={ETCD}",
        "--bind-address=0.0.0.0",
        f"--secure-port={PORT}",
        f"--advertise-address={address}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--token-auth-file={pki}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--default-not-ready-toleration-seconds={POD_GRACE}",
        f"--default-unreachable-toleration-seconds={POD_GRACE}",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/accounts.pub",
        f"--service-account-signing-key-file={pki}/accounts.key",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        "--profiling=false",
        *audit,
    ]


def controller_manager(folder: Path) -> list[str]:
    pki = folder / "pki"
    return [
        str(BINARIES / "kube-controller-manager"),
        f"--kubeconfig={pki}/controller-manager.kubeconfig",
        "--leader-elect=false",
        "--port=0",
        "--secure-port=0",
        "--use-service-account-credentials=true",
        f"--root-ca-file={pki}/ca.crt",
        f"--service-account-private-key-file={pki}/accounts.key",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={NODE_GRACE}s",
        "--node-eviction-rate=10",
        "--terminated-pod-gc-threshold=100000",
        "--profiling=false",
    ]


def scheduler(folder: Path) -> list[str]:
    return [
        str(BINARIES / "kube-scheduler"),
        f"--kubeconfig={folder}/pki/scheduler.kubeconfig",
        "--leader-elect=false",
        "--port=0",
        "--secure-port=0",
        "--profiling=false",
    ]


def proxy(folder: Path, node: str) -> list[str]:
    """ClusterIP services. One serves all nodes, since they share the cluster's network namespace.

    Everything is masqueraded: two Pods on one bridge would otherwise answer each other past the address translation.
    """
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node,
        "clusterCIDR": PODS,
        "healthzBindAddress": "",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "min": 0},
        "iptables": {"masqueradeAll": True, "minSyncPeriod": "0s", "syncPeriod": "30s"},
        "clientConnection": {"kubeconfig": f"{folder}/pki/proxy.kubeconfig"},
    }
    path = folder / "proxy.json"
    path.write_text(json.dumps(config))
    return [str(BINARIES / "kube-proxy"), f"--config={path}"]
