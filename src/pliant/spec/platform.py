"""Where the nodes run, and what only one platform understands.

A file may hold the options of several platforms, so that ``kind`` alone decides where the job goes. Platforms that
other teams add by an entry point get ``options`` as it is.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pliant.spec.base import Contradiction, Model, Problem
from pliant.spec.quantities import Memory
from pliant.spec.roles import Capacity


class LocalOptions(Model):
    """Processes on this machine."""

    capacity: Capacity = Field(
        default=Capacity(), description="Total resources for all nodes; 0: those of the machine."
    )
    limits: Literal["auto", "off"] = Field(
        default="auto", description="Whether limits are enforced: auto where the system allows it, off never."
    )


class JournalVolume(Model):
    """Where the master's Pod keeps its journal and the rest of its folder."""

    volume: Literal["auto", "claim", "emptyDir"] = Field(
        default="auto",
        description="claim outlives the master's Pod; emptyDir is lost with it: then only an allreduce job "
        "continues, with its living workers, any other job restarts from scratch. auto: a claim where the "
        "cluster has a default storage class, else emptyDir.",
    )
    size: Memory = Field(default=1024, description="Size of the claim.")
    storage_class: str | None = Field(
        default=None, min_length=1, description="Storage class of the claim. Default: the cluster's default."
    )


class MasterPod(Model):
    """The Pod of the master."""

    resources: Capacity = Field(default=Capacity(cpu=0.1, memory=256), description="Resources of the master.")
    node_selector: dict[str, str] = Field(
        default={}, description="Labels of the machines that may run the master. Default: as for the nodes."
    )
    template: dict[str, Any] = Field(
        default={}, description="Merged into the master's Pod, like the template of a role."
    )


class KubernetesOptions(Model):
    """Pods of a cluster."""

    namespace: str = Field(default="default", min_length=1, max_length=63, description="The namespace of the job.")
    image: str | None = Field(
        default=None, min_length=1, description="The image of master and nodes. Default: the operator's own."
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="Image pull policy."
    )
    image_pull_secrets: tuple[str, ...] = Field(default=(), description="Names of the image pull secrets.")
    service_account: str | None = Field(
        default=None, min_length=1, description="The service account of the nodes. Its token is not mounted."
    )
    priority_class: str | None = Field(default=None, min_length=1, description="The priority class of the nodes.")
    high_priority_class: str | None = Field(
        default=None, min_length=1, description="Priority class of the share of workers given by high_priority_share."
    )
    high_priority_share: Annotated[float, Field(strict=True, ge=0, le=1)] = Field(
        default=0.0, description="Share of workers, 0 to 1, that get high_priority_class."
    )
    node_selector: dict[str, str] = Field(default={}, description="Labels of the machines that may run nodes.")
    tolerations: tuple[dict[str, Any], ...] = Field(default=(), description="Tolerations, as in a Pod.")
    journal: JournalVolume = Field(default=JournalVolume(), description="Where the master keeps its journal.")
    shared_claim: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="A PersistentVolumeClaim that all Pods of the job mount at /pliant/shared: data, "
        "checkpoints, and the state of parameter servers. It must allow ReadWriteMany where Pods run on several machines.",
    )
    master: MasterPod = Field(default=MasterPod(), description="The Pod of the master.")

    @model_validator(mode="after")
    def _share_has_a_class(self) -> KubernetesOptions:
        if self.high_priority_share and not self.high_priority_class:
            allowed = "a priority class, since high_priority_share is given"
            raise Contradiction([Problem(("high_priority_class",), None, allowed)])
        return self


class RayOptions(Model):
    """Actors of a Ray cluster."""

    address: str = Field(
        default="auto",
        min_length=1,
        description="host:port of the cluster's head; auto: RAY_ADDRESS, else this machine's.",
    )
    runtime_env: dict[str, Any] = Field(default={}, description="Passed to Ray; a local working_dir is uploaded.")


class PlatformSpec(Model):
    """``local``, or with options ``{kind: local, local: {...}}``."""

    kind: str = Field(
        default="local",
        pattern=r"^[a-z][a-z0-9_-]*$",
        max_length=63,
        description="local, kubernetes, ray, or the name of an entry point in pliant.platforms.",
    )
    local: LocalOptions = Field(default=LocalOptions(), description="Options for the local platform.")
    kubernetes: KubernetesOptions = Field(default=KubernetesOptions(), description="Options for Kubernetes.")
    ray: RayOptions = Field(default=RayOptions(), description="Options for Ray.")
    options: dict[str, Any] = Field(default={}, description="Options for a platform added by an entry point.")

    @classmethod
    def long_form(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value
