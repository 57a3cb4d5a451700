"""The job as its user describes it: one validated model, for YAML files and the ElasticJob resource alike.

``job`` is the whole and its cross-field checks; ``roles``, ``faults``, ``datasets``, ``platform`` and ``sections`` are
its parts, each with a conversion to what ``core`` decides with; ``components`` says which components of the master run.
``state`` makes the state machines that a job begins with. ``base`` holds what all parts share, ``text`` reads and writes
YAML, ``problems`` turns what pydantic found into a
``SpecError`` for people, and ``schema`` exports the model. Only these modules know pydantic: the rest of Pliant gets a
spec that is right.
"""

from pliant.spec.components import ComponentFlags, ComponentSet, Strategy
from pliant.spec.datasets import DatasetSpec, FileSpec
from pliant.spec.faults import BackoffSpec, BudgetSpec, FaultSpec, MemorySpec, UnschedulableSpec
from pliant.spec.job import JobSpec, json_schema, load_spec, structural_schema
from pliant.spec.platform import (
    JournalVolume,
    KubernetesOptions,
    LocalOptions,
    MasterPod,
    PlatformSpec,
    RayOptions,
)
from pliant.spec.roles import Capacity, Replicas, ResourcesSpec, RestartLimits, RoleSpec
from pliant.spec.sections import CheckpointSpec, JournalSpec, OptimizeSpec, RendezvousSpec, SecuritySpec
from pliant.spec.state import initial_state

__all__ = [
    "BackoffSpec",
    "BudgetSpec",
    "Capacity",
    "CheckpointSpec",
    "ComponentFlags",
    "ComponentSet",
    "DatasetSpec",
    "FaultSpec",
    "FileSpec",
    "JobSpec",
    "JournalSpec",
    "JournalVolume",
    "KubernetesOptions",
    "LocalOptions",
    "MasterPod",
    "MemorySpec",
    "OptimizeSpec",
    "PlatformSpec",
    "RayOptions",
    "RendezvousSpec",
    "Replicas",
    "ResourcesSpec",
    "RestartLimits",
    "RoleSpec",
    "SecuritySpec",
    "Strategy",
    "UnschedulableSpec",
    "initial_state",
    "json_schema",
    "load_spec",
    "structural_schema",
]
