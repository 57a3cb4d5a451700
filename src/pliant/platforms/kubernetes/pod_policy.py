"""What a job may ask of its Pods: an allow-list of template fields, with the values of the restricted Pod Security profile.

Whoever may create ElasticJobs has Pods made by the operator, which may create any Pod. So what Kubernetes would check of a person
(Pod Security admission, rights on service accounts) is checked here, before anything is created, and a violation is an invalid
spec with the field's name. Three things are refused beyond the profile, since by them a job could become another one: a token of
the API server, the Secrets and volumes that Pliant keeps for jobs, and labels of Pliant's own. An administrator widens it for
all jobs of an operator (``PodPolicy``; in the chart ``podPolicy``). Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import SpecError
from pliant.platforms.kubernetes.names import GROUP
from pliant.platforms.kubernetes.shapes import (
    Shape,
    Violation,
    amounts,
    anything,
    both,
    fields,
    flag,
    items,
    mapping,
    number,
    one_of,
    refused_for,
    text,
    values,
)
from pliant.spec import JobSpec

# What ``allow`` can name, and what it is.
WIDENINGS = {
    "capabilities": "capabilities beyond NET_BIND_SERVICE",
    "hostIPC": "the machine's IPC namespace",
    "hostNetwork": "the machine's network",
    "hostPID": "the machine's processes",
    "hostPort": "ports of the machine",
    "privileged": "privileged containers, and privilege escalation",
    "runAsRoot": "the user root",
    "serviceAccountToken": "tokens of the API server, for a service account that is not a master's",
    "unconfined": "profiles of seccomp, AppArmor and SELinux other than the default, and sysctls",
}
# Of the restricted profile.
VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
UNCONFINED_ANNOTATIONS = ("container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/")
# Names of what Pliant keeps for jobs, see ``names``, and of tokens that Kubernetes up to 1.23 kept as Secrets.
RESERVED_SECRETS = re.compile(r".*-(master|node|brain|brain-database|token-[a-z0-9]{5})")
RESERVED_CLAIMS = re.compile(r".*-journal")
RESERVED_ACCOUNTS = re.compile(r".*-master")


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """What jobs may ask for beyond the restricted profile."""

    allow: frozenset[str] = frozenset()  # of WIDENINGS
    volumes: tuple[str, ...] = ()  # further types of volumes, such as nfs
    host_paths: tuple[str, ...] = ()  # folders of the machine that may be mounted, with all below them

    def __post_init__(self) -> None:
        if unknown := sorted(self.allow - WIDENINGS.keys()):
            raise SpecError(f"unknown in the Pod policy: {', '.join(unknown)}", hint=f"use {', '.join(WIDENINGS)}")

    def violations(self, spec: JobSpec) -> list[Violation]:
        """Of all templates of a job, and of what it names besides."""
        options, shape = spec.platform.kubernetes, _template(self)
        found = list(shape(options.master.template, "platform.kubernetes.master.template"))
        for name, role in spec.roles.items():
            found += shape(role.template, f"roles.{name}.template")
        if options.service_account and RESERVED_ACCOUNTS.fullmatch(options.service_account):
            problem = f"{options.service_account} is a name for the account of a job's master; use another"
            found.append(Violation("platform.kubernetes.service_account", problem))
        found += _not_reserved(RESERVED_CLAIMS, "claim")(options.shared_claim or "", "platform.kubernetes.shared_claim")
        return found

    def check(self, spec: JobSpec, source: str) -> None:
        """Raises a ``SpecError`` that names each field."""
        if found := self.violations(spec):
            hint = "remove it, or ask an administrator of the cluster to allow it (podPolicy of Pliant's chart)"
            raise SpecError(f"{source}: " + "; ".join(map(str, found)), hint=hint)


def _unless(allowed: bool, name: str, otherwise: Shape, wide: Shape = anything) -> Shape:
    """``otherwise`` holds where the policy does not allow ``name``, and says that it could."""
    if allowed:
        return wide

    def check(value: Any, path: str) -> Iterator[Violation]:
        for found in otherwise(value, path):
            yield Violation(found.path, f"{found.problem} (podPolicy.allow: {name})")

    return check


def _template(policy: PodPolicy) -> Shape:
    annotations = both(values(text), _own_keys, _confining(policy))
    metadata = fields(labels=both(values(text), _own_keys), annotations=annotations)
    return fields(metadata=metadata, spec=_pod(policy))


def _pod(policy: PodPolicy) -> Shape:
    containers = items(_container(policy), named=True)
    no_account = refused_for("is not allowed in a template; use platform.kubernetes.service_account")
    host = {
        name: _unless(name in policy.allow, name, one_of(False), flag) for name in ("hostNetwork", "hostPID", "hostIPC")
    }
    token = "serviceAccountToken"
    return fields(
        **host,
        activeDeadlineSeconds=number,
        affinity=mapping,
        automountServiceAccountToken=_unless(token in policy.allow, token, one_of(False), flag),
        containers=containers,
        dnsConfig=mapping,
        dnsPolicy=text,
        enableServiceLinks=flag,
        hostAliases=items(mapping),
        hostUsers=one_of(False),
        hostname=text,
        imagePullSecrets=items(fields(name=text), named=True),
        initContainers=containers,
        nodeSelector=values(text),
        priorityClassName=text,
        resourceClaims=items(mapping, named=True),
        runtimeClassName=text,
        schedulerName=text,
        securityContext=_security(policy, of_pod=True),
        serviceAccount=no_account,
        serviceAccountName=no_account,
        shareProcessNamespace=flag,
        subdomain=text,
        terminationGracePeriodSeconds=number,
        tolerations=items(mapping),
        topologySpreadConstraints=items(mapping),
        volumes=items(_volume(policy), named=True),
    )


def _container(policy: PodPolicy) -> Shape:
    host_port = _unless("hostPort" in policy.allow, "hostPort", one_of(0), number)
    port = fields(containerPort=number, hostPort=host_port, name=text, protocol=text)
    secret = fields(key=text, name=_not_reserved(RESERVED_SECRETS, "Secret"), optional=flag)
    source = fields(configMapKeyRef=mapping, fieldRef=mapping, resourceFieldRef=mapping, secretKeyRef=secret)
    variables = fields(configMapRef=mapping, prefix=anything, secretRef=secret)
    mount = fields(
        mountPath=text,
        mountPropagation=_unless("privileged" in policy.allow, "privileged", one_of("None", "HostToContainer"), text),
        name=text,
        readOnly=flag,
        recursiveReadOnly=text,
        subPath=text,
        subPathExpr=text,
    )
    probe = both(mapping, _of_the_pod_itself)
    return fields(
        args=items(text),
        command=items(text),
        env=items(fields(name=text, value=text, valueFrom=source), named=True),
        envFrom=items(variables),
        image=text,
        imagePullPolicy=text,
        lifecycle=probe,
        livenessProbe=probe,
        name=text,
        ports=items(port),
        readinessProbe=probe,
        resizePolicy=items(mapping),
        resources=fields(claims=items(mapping), limits=values(amounts), requests=values(amounts)),
        restartPolicy=text,
        securityContext=_security(policy, of_pod=False),
        startupProbe=probe,
        stdin=flag,
        stdinOnce=flag,
        terminationMessagePath=text,
        terminationMessagePolicy=text,
        tty=flag,
        volumeDevices=items(mapping),
        volumeMounts=items(mount),
        workingDir=text,
    )


def _security(policy: PodPolicy, *, of_pod: bool) -> Shape:
    allow = policy.allow
    free, root, privileged = "unconfined" in allow, "runAsRoot" in allow, "privileged" in allow
    default_profile = fields(localhostProfile=text, type=one_of("RuntimeDefault", "Localhost"))
    profile = _unless(free, "unconfined", default_profile)
    selinux = _unless(free, "unconfined", fields(level=text, type=one_of(*SELINUX_TYPES)))
    common: dict[str, Shape] = {
        "appArmorProfile": profile,
        "runAsGroup": number,
        "runAsNonRoot": _unless(root, "runAsRoot", one_of(True), flag),
        "runAsUser": _unless(root, "runAsRoot", both(number, _not_root), number),
        "seLinuxOptions": selinux,
        "seccompProfile": profile,
    }
    if of_pod:
        sysctls = _unless(free, "unconfined", refused_for("is not allowed in a template"))
        more = {"fsGroup": number, "fsGroupChangePolicy": text, "supplementalGroups": items(number), "sysctls": sysctls}
        return fields(**common, **more)
    drop = _unless("capabilities" in allow, "capabilities", _all_dropped)
    add = _unless("capabilities" in allow, "capabilities", items(one_of("NET_BIND_SERVICE")))
    return fields(
        **common,
        allowPrivilegeEscalation=_unless(privileged, "privileged", one_of(False), flag),
        capabilities=fields(add=add, drop=drop),
        privileged=_unless(privileged, "privileged", one_of(False), flag),
        procMount=_unless(privileged, "privileged", one_of("Default")),
        readOnlyRootFilesystem=flag,
    )


def _volume(policy: PodPolicy) -> Shape:
    secret = _not_reserved(RESERVED_SECRETS, "Secret")
    token = _unless("serviceAccountToken" in policy.allow, "serviceAccountToken", refused_for("is not allowed"))
    source = fields(
        clusterTrustBundle=mapping,
        configMap=mapping,
        downwardAPI=mapping,
        secret=fields(items=items(mapping), name=secret, optional=flag),
        serviceAccountToken=token,
    )
    shapes: dict[str, Shape] = {
        **dict.fromkeys((*VOLUMES, *policy.volumes), mapping),
        "csi": both(mapping, _csi_secret),
        "name": text,
        "persistentVolumeClaim": fields(claimName=_not_reserved(RESERVED_CLAIMS, "claim"), readOnly=flag),
        "projected": fields(defaultMode=number, sources=items(source)),
        "secret": fields(defaultMode=number, items=items(mapping), optional=flag, secretName=secret),
        "hostPath": _host_path(policy),
    }
    known = fields(**shapes)

    def check(value: Any, path: str) -> Iterator[Violation]:
        if isinstance(value, Mapping) and (others := value.keys() - shapes.keys()):
            allowed = ", ".join((*VOLUMES, *policy.volumes))
            problem = f"volumes of this type are not allowed (allowed: {allowed}; more: podPolicy.volumes)"
            yield from (Violation(f"{path}.{name}", problem) for name in sorted(others))
            return
        yield from known(value, path)

    return check


def _host_path(policy: PodPolicy) -> Shape:
    def is_inside(value: Any, path: str) -> Iterator[Violation]:
        wanted = posixpath.normpath(value) if isinstance(value, str) else ""
        if ".." in str(value).split("/") or not any(_is_below(wanted, folder) for folder in policy.host_paths):
            yield Violation(path, f"{value}: this folder of the machine is not allowed (podPolicy.hostPaths)")

    inside = fields(path=is_inside, type=text)

    def check(value: Any, path: str) -> Iterator[Violation]:
        yield from inside(value, path)
        if isinstance(value, Mapping) and "path" not in value:
            yield Violation(path, "has no path")

    return check


def _is_below(path: str, folder: str) -> bool:
    return path.startswith("/") and posixpath.commonpath((path, posixpath.normpath(folder))) == posixpath.normpath(
        folder
    )


def _not_reserved(names: re.Pattern[str], kind: str) -> Shape:
    def check(value: Any, path: str) -> Iterator[Violation]:
        if not isinstance(value, str):
            yield Violation(path, f"must be text, not {value!r}")
        elif names.fullmatch(value):
            yield Violation(path, f"{value} is a name for a {kind} that Pliant or Kubernetes keeps; use another")

    return check


def _csi_secret(value: Any, path: str) -> Iterator[Violation]:
    reference = value.get("nodePublishSecretRef") if isinstance(value, Mapping) else None
    if isinstance(reference, Mapping):
        name = reference.get("name", "")
        yield from _not_reserved(RESERVED_SECRETS, "Secret")(name, f"{path}.nodePublishSecretRef.name")


def _of_the_pod_itself(value: Any, path: str) -> Iterator[Violation]:
    """A probe or hook: the kubelet makes the call, with the network of the machine."""
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        if key == "host":
            yield Violation(f"{path}.{key}", "is not allowed: probes and hooks call their own Pod")
        yield from _of_the_pod_itself(inner, f"{path}.{key}")


def _own_keys(value: Any, path: str) -> Iterator[Violation]:
    for key in value if isinstance(value, Mapping) else ():
        if str(key).startswith(f"{GROUP}/"):
            yield Violation(f"{path}.{key}", "is set by Pliant")


def _confining(policy: PodPolicy) -> Shape:
    """Profiles as annotations, as Kubernetes up to 1.30 has them."""
    shape = _unless("unconfined" in policy.allow, "unconfined", one_of("runtime/default", "docker/default"))

    def check(value: Any, path: str) -> Iterator[Violation]:
        for key, inner in value.items() if isinstance(value, Mapping) else ():
            if str(key).startswith(UNCONFINED_ANNOTATIONS):
                yield from shape(inner, f"{path}.{key}")

    return check


def _not_root(value: Any, path: str) -> Iterator[Violation]:
    if value == 0:
        yield Violation(path, "may not be 0, the user root")


def _all_dropped(value: Any, path: str) -> Iterator[Violation]:
    if not isinstance(value, list | tuple) or "ALL" not in value:
        yield Violation(path, "must include ALL")
