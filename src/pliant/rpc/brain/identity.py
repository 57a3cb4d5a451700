"""Who may talk to the Brain: whoever knows the cluster's token, or that of one job.

The token of a job is derived from the cluster's (HMAC of its namespace and name), so the Brain keeps no list, and whoever has the
token of a job can find neither the cluster's nor that of another job. A call names its job in a header, and has that job's token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from pliant.core.errors import InvalidRequest
from pliant.rpc.identity import TOKEN_HEADER, same_token

JOB_HEADER = "pliant-job"
PROTOCOL = 1
LOCAL_NAMESPACE = "local"  # of jobs that run on one machine
RAY_NAMESPACE = "ray"  # of jobs on Ray, which has no namespaces of its users
MAX_NAME = 253  # characters, as in Kubernetes
_NAME = re.compile(r"[\w.+@~:-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Caller:
    """``namespace`` and ``name`` of the job that calls; both empty: the cluster's own programs."""

    namespace: str = ""
    name: str = ""

    @property
    def is_cluster(self) -> bool:
        return not self.name


def home_namespace(platform: str) -> str:
    """Of a job that is started from a folder of its own, not in a namespace of Kubernetes."""
    return RAY_NAMESPACE if platform == "ray" else LOCAL_NAMESPACE


def check_name(name: str, what: str) -> str:
    if not name or len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r:.80} is not a valid name of a {what}", hint="letters, digits and . _ - + @ ~ : are allowed"
        )
    return name


def job_token(cluster_token: str, namespace: str, name: str) -> str:
    about = f"pliant brain job\n{check_name(namespace, 'namespace')}\n{check_name(name, 'job')}".encode()
    return hmac.new(cluster_token.encode(), about, hashlib.sha256).hexdigest()


def job_uid(token: str) -> str:
    """Of the job whose own secret this is (``rpc/identity.py``): a job that is made anew has another secret."""
    return hashlib.sha256(b"pliant job uid\n" + token.encode()).hexdigest()[:32]


def credentials(token: str, caller: Caller) -> tuple[tuple[str, str], ...]:
    """The headers of a call."""
    if caller.is_cluster:
        return ((TOKEN_HEADER, token),)
    return ((TOKEN_HEADER, token), (JOB_HEADER, f"{quote(caller.namespace)}/{quote(caller.name)}"))


def caller_of(headers: dict[str, str | bytes], cluster_token: str) -> Caller | None:
    """Who calls; None: somebody who does not know the token."""
    given = headers.get(TOKEN_HEADER, "")
    job = headers.get(JOB_HEADER, "")
    if not job:
        return Caller() if same_token(given, cluster_token) else None
    namespace, _, name = str(job).partition("/")
    try:
        caller = Caller(unquote(namespace), unquote(name))
        expected = job_token(cluster_token, caller.namespace, caller.name)
    except InvalidRequest:
        return None
    return caller if same_token(given, expected) else None


CLUSTER = Caller()
