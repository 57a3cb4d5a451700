"""``pliant doctor --platform ray``: whether a Ray cluster is there and can run nodes.

In the order in which things fail: the port, the dashboard (versions, who is let in), and only then Ray's own client, which
would wait for more than a minute where nobody listens.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pliant.cli.doctor.check import Check
from pliant.core.errors import PliantError
from pliant.core.plurals import counted
from pliant.platforms.ray.addresses import check_listening
from pliant.platforms.ray.link import BridgeLink

OLDEST = (2, 60)
DASHBOARD_S = 5.0
DASHBOARD_PORT = 8265
TOKEN, TOKEN_FILE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"  # as Ray's own client reads them


def examine(address: str, dashboard: str = "") -> list[Check]:
    """``dashboard``: its URL; empty: at its usual port, else where the cluster says that it is."""
    installed = _installed()
    if installed.state == "broken":
        return [installed]
    try:
        found = check_listening(address)
    except PliantError as error:
        return [installed, Check("cluster", "broken", error.message, error.hint)]
    checks = [installed, Check("cluster", "ok", f"something listens at {found}")]
    dashboard = dashboard or _usual_dashboard(found)
    if dashboard:
        checks.append(_dashboard(dashboard, installed.text))
        if checks[-1].state == "broken":
            return checks
    try:
        machines, url = asyncio.run(_machines(found))
    except PliantError as error:
        return [*checks, Check("client", "broken", error.message, "check the versions of Ray and Python on both sides")]
    checks.append(_room(machines))
    if not dashboard:
        checks.append(_dashboard(f"http://{url}", installed.text) if url else _no_dashboard())
    checks.append(_niceness())
    return checks


def _installed() -> Check:
    try:
        found = version("ray")
    except PackageNotFoundError:
        return Check("packages", "broken", "ray is not installed", "pip install 'pliant[ray]'")
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        return Check("packages", "warning", f"ray {found}; tested from {wanted} on", "upgrade Ray on all machines")
    return Check("packages", "ok", f"ray {found}")


def _usual_dashboard(address: str) -> str:
    """On the head, at the port that Ray takes unless it is told otherwise; empty: nobody listens there."""
    host = address.rpartition(":")[0]
    try:
        socket.create_connection((host.strip("[]"), DASHBOARD_PORT), timeout=DASHBOARD_S).close()
    except OSError:
        return ""
    return f"http://{host}:{DASHBOARD_PORT}"


def _dashboard(url: str, installed: str) -> Check:
    """Its ``/api/version``, with the token where there is one."""
    request = urllib.request.Request(url.rstrip("/") + "/api/version")
    if token := _token():
        request.add_header("Authorization", f"Bearer {token}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=DASHBOARD_S) as reply:
            about = json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            hint = f"set {TOKEN}, or {TOKEN_FILE} to a file with it"
            return Check("dashboard", "broken", f"{url} wants a token that is not given, or another one", hint)
        return Check("dashboard", "warning", f"{url} answers with {error.code}")
    except (OSError, ValueError) as error:
        return Check("dashboard", "warning", f"{url} does not answer: {error}", "check the head's dashboard log")
    served = str(about.get("ray_version", ""))
    if served and served not in installed:
        hint = "install the cluster's version of Ray here"
        return Check("dashboard", "broken", f"the cluster has ray {served}, this machine {installed}", hint)
    return Check("dashboard", "ok", f"{url}, ray {served}")


def _no_dashboard() -> Check:
    return Check("dashboard", "absent", "the cluster has none; nothing of Pliant needs it", "")


def _token() -> str:
    if given := os.environ.get(TOKEN):
        return given
    path = Path(os.environ.get(TOKEN_FILE) or Path.home() / ".ray" / "auth_token")
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


async def _machines(address: str) -> tuple[list[dict[str, Any]], str]:
    with tempfile.TemporaryDirectory() as folder:
        link = BridgeLink(address, "doctor", Path(folder), {})
        try:
            return await link.call("machines"), await link.call("dashboard_url")
        finally:
            await link.close()


def _room(machines: list[dict[str, Any]]) -> Check:
    if not machines:
        return Check("machines", "broken", "the cluster has no machine", "start one with `ray start --address`")
    cpu = sum(machine["free"]["cpu"] for machine in machines)
    of = sum(machine["total"]["cpu"] for machine in machines)
    text = f"{counted(len(machines), 'machine')}, {cpu:g} of {of:g} CPUs available"
    return Check("machines", "ok" if cpu else "warning", text, "" if cpu else "nodes wait until others end")


def _niceness() -> Check:
    """Ray starts workers at 15; undoing it needs root, or a limit that allows it."""
    import resource

    try:
        allowed = 20 - resource.getrlimit(resource.RLIMIT_NICE)[0]
    except (ValueError, OSError):
        allowed = 20
    if os.geteuid() == 0 or allowed <= 0 or os.environ.get("RAY_worker_niceness") == "0":  # noqa: SIM112  (Ray spells it so)
        return Check("priority", "ok", "programs can run at normal priority on this machine")
    hint = "start Ray with RAY_worker_niceness=0"
    return Check("priority", "warning", "Ray runs workers at nice 15, and this user cannot undo that", hint)
