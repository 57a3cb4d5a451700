"""A master without a launcher, for ``pliant master``: its folder, its spec from the flags, and serving in the foreground."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shlex
from pathlib import Path
from typing import Any

from pliant.cli.render.terminal import EscapingFormatter, say, warn
from pliant.core.errors import Conflict, InvalidRequest, PermanentError, PliantError
from pliant.core.job import Phase
from pliant.core.nodes.environment import NodeEnvironment
from pliant.files.atomic import read_json, write_text
from pliant.files.locks import FileLock
from pliant.files.private import FILE_MODE, restrict_new_files
from pliant.handles.job_dirs import fresh_name, jobs_home
from pliant.launch.job_folder import check_folder, create_folder, remove_own_files
from pliant.launch.job_spec import check_launchable
from pliant.launch.joining_brain import give_token, with_address
from pliant.master.job_dir import JobDir
from pliant.master.unrecorded_stop import stop_without_journal
from pliant.rpc.grpc_logging import import_grpc_quietly
from pliant.spec import JobSpec, load_spec
from pliant.spec.job import LABEL, MAX_NAME
from pliant.spec.parameters import PS_STRATEGIES

POLL_INTERVAL_S = 0.05


def prepare(
    name: str | None, job_dir: Path | None, file: Path | None, given: dict[str, Any], *, has_token: bool = False
) -> JobDir:
    """The folder of a new job, or of the one to continue. ``has_token``: for the Brain, from elsewhere."""
    base = load_spec(file) if file is not None else None
    name = name or (base.name if base else "") or (job_dir.name if job_dir and _is_name(job_dir.name) else "")
    home = JobDir((job_dir or jobs_home() / (name or fresh_name())).absolute())
    if home.exists():
        check_folder(home, warn)
        stored = load_spec(home.spec)
        if home.summary_file.exists():
            raise Conflict(f"the job in {home.path} has ended", hint="choose another --name or --job-dir")
        wanted = with_address(_changed(base or stored, stored.name, given, stored.working_dir or os.getcwd()))
        if wanted != stored:
            raise Conflict(
                f"the job in {home.path} was started with other options",
                hint="continue it with the same options or none, or choose another --name",
            )
        return home
    empty = JobSpec.from_dict({"components": {"need_pod_manager": False}})
    made = with_address(_changed(base or empty, name or home.path.name, given, os.getcwd(), fresh=base is None))
    check_launchable(made)
    try:
        create_folder(home, warn)
        if made.optimize.uses_brain and not has_token:
            give_token(made, home)
        write_text(home.spec, made.to_yaml(), mode=FILE_MODE)
    except OSError as error:
        raise PliantError(f"cannot write to the job directory {home.path}: {error.strerror}") from error
    return home


def _changed(base: JobSpec, name: str, given: dict[str, Any], folder: str, *, fresh: bool = False) -> JobSpec:
    value: dict[str, Any] = base.entries()
    value["name"] = name
    value["working_dir"] = value["working_dir"] or folder
    if "strategy" in given:
        value["strategy"] = given["strategy"]
    if "tls" in given:
        value["security"] = {"tls": given["tls"]}
    kept = {} if fresh else {k: v for k, v in value["components"].entries().items() if v is not None}
    value["components"] = {**kept, **given.get("components", {})}
    value["roles"] = _roles(value, given)
    return JobSpec.from_dict(value, source="the command line")


def _roles(value: dict[str, Any], given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Workers and parameter servers as the flags ask for them, one server where the strategy needs some and none is asked for."""
    roles = {role: entry.entries() for role, entry in value["roles"].items()}
    asked = {
        "worker": {"command": given.get("worker_command"), "replicas": given.get("workers")},
        "ps": {"command": given.get("ps_command"), "replicas": given.get("servers")},
    }
    for role, options in asked.items():
        if changes := {key: option for key, option in options.items() if option is not None}:
            roles[role] = {**roles.get(role, {}), **changes}
    if value["strategy"] in PS_STRATEGIES:
        roles.setdefault("ps", {})
    elif "servers" in given and not roles["ps"].get("command"):
        raise InvalidRequest(
            "--num-ps needs a parameter server program",
            hint="use --distribution-strategy ps-sync or ps-async, or pass another framework's server command with --ps-command",
        )
    return roles


def serve(
    home: JobDir, host: str, port: int, lock: FileLock, *, brain_dir: Path | None = None, as_json: bool = False
) -> Phase:
    """``lock``: the master's, which the caller has acquired. Without host and port it serves programs of this machine only."""
    restrict_new_files()
    import_grpc_quietly()
    from pliant.master.process import Master, StopUnrecorded

    log_file = logging.FileHandler(home.logs / "master.log")
    handlers: list[logging.Handler] = [logging.StreamHandler(), log_file]
    for handler in handlers:
        handler.setFormatter(EscapingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)

    async def run() -> Phase:
        announcement = asyncio.create_task(_announce(home, as_json=as_json))
        try:
            return await Master(home, host=host, port=port, brain_dir=brain_dir).run()
        finally:
            announcement.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await announcement

    served_before = home.master_file.exists()
    try:
        return asyncio.run(run())
    except StopUnrecorded as error:
        logging.getLogger(__name__).error("%s; stopping without the journal", error)
        lock.release()
        recorded = stop_without_journal(home, "stopped by the user", lambda: False)
        return Phase.STOPPED if recorded else Phase.INTERRUPTED
    except PermanentError:
        if not served_before and not home.master_file.exists():
            remove_own_files(home)
        raise
    finally:
        logging.getLogger().removeHandler(log_file)
        log_file.close()


async def _announce(home: JobDir, *, as_json: bool) -> None:
    """Once it listens: its address, and how a program connects."""
    while (where := read_json(home.master_file)) is None or where["pid"] != os.getpid():
        await asyncio.sleep(POLL_INTERVAL_S)
    address = where["tcp"] or where["address"]
    tls_dir = home.tls if home.tls.exists() else None
    is_plaintext = where["tcp"] is not None and load_spec(home.spec).security.tls is False
    environment = NodeEnvironment(
        master_addr=address, token_file=home.token, tls_dir=tls_dir, allows_plaintext=is_plaintext
    )
    if as_json:
        found = {"name": home.name, "job_dir": str(home.path), "address": address, "token_file": str(home.token)}
        print(json.dumps({**found, "environment": environment.to_env()}), flush=True)
        return
    setting = " ".join(f"{key}={shlex.quote(value)}" for key, value in environment.to_env().items())
    say(f"job        {home.name}, in {home.path}")
    say(f"address    {address}")
    say(f"token file {home.token}")
    say(f"connect    {setting} python train.py")


def _is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and re.fullmatch(LABEL, text) is not None
