"""Where the nodes run, and what only one platform understands.

A file may hold the options of several platforms, so that ``kind`` alone decides where the job goes. Platforms that
other teams add by an entry point get ``options`` as it is.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pliant.spec.base import Model
from pliant.spec.roles import Capacity


class LocalOptions(Model):
    """Processes on this machine."""

    capacity: Capacity = Field(
        default=Capacity(), description="What all nodes together may ask for; 0: what the machine has."
    )
    limits: Literal["auto", "off"] = Field(
        default="auto", description="Whether limits are enforced: auto where the system allows it, off never."
    )


class KubernetesOptions(Model):
    """Pods of a cluster."""

    namespace: str = Field(default="default", min_length=1, max_length=63, description="The namespace of the job.")
    image: str | None = Field(default=None, description="The image of the nodes.")
    service_account: str | None = Field(default=None, description="The service account of the nodes.")
    priority_class: str | None = Field(default=None, description="The priority class of the nodes.")
    node_selector: dict[str, str] = Field(default={}, description="Labels of the machines that may be used.")


class RayOptions(Model):
    """Actors of a Ray cluster."""

    address: str = Field(default="auto", min_length=1, description="The address of the cluster.")
    namespace: str | None = Field(default=None, description="The Ray namespace of the job.")
    runtime_env: dict[str, Any] = Field(default={}, description="Passed on to Ray as it is.")


class PlatformSpec(Model):
    """``local``, or with options ``{kind: local, local: {...}}``."""

    kind: str = Field(
        default="local",
        pattern=r"^[a-z][a-z0-9_-]*$",
        max_length=63,
        description="local, kubernetes, ray, or the name of an entry point in pliant.platforms.",
    )
    local: LocalOptions = Field(default=LocalOptions(), description="Options of the local platform.")
    kubernetes: KubernetesOptions = Field(default=KubernetesOptions(), description="Options of Kubernetes.")
    ray: RayOptions = Field(default=RayOptions(), description="Options of Ray.")
    options: dict[str, Any] = Field(default={}, description="Options of a platform that an entry point adds.")

    @classmethod
    def long_form(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value
