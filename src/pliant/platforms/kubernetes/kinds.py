"""The kinds of resources that Pliant reads or writes, as their addresses in the API of Kubernetes need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pliant.platforms.kubernetes.names import GROUP, VERSION

Object = dict[str, Any]  # a resource of Kubernetes, as JSON


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource, as its address in the API needs it."""

    group: str  # empty: the core group
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """As rules of RBAC and kubectl call it: ``pods``, ``elasticjobs.pliant.dev``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


ELASTIC_JOBS = Kind(GROUP, VERSION, "ElasticJob", "elasticjobs")
SCALE_PLANS = Kind(GROUP, VERSION, "ScalePlan", "scaleplans")
PODS = Kind("", "v1", "Pod", "pods")
SERVICES = Kind("", "v1", "Service", "services")
SECRETS = Kind("", "v1", "Secret", "secrets")
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
CLAIMS = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")
EVENTS = Kind("", "v1", "Event", "events")
NAMESPACES = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
NODES = Kind("", "v1", "Node", "nodes", namespaced=False)
ROLES = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
LEASES = Kind("coordination.k8s.io", "v1", "Lease", "leases")
NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
CRDS = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments")
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")
NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", namespaced=False)
