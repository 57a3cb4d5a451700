"""Scale a role of a running job: its number of nodes, the resources of each node, or its share of the work.

    pliant scale digits --workers 6
    pliant scale clicks worker=6 ps=3
    pliant scale digits worker --cpu 2 --memory 4Gi
    pliant scale digits ps --memory 16Gi --replicas 3 --rolling --reason "more memory for embeddings"
    pliant scale digits --workers 6 -N team-a
    pliant scale clicks --move-off ps-1 --share 0.5
    pliant scale digits --seats worker-0=4,worker-1=3,worker-2=1

New nodes join immediately; surplus nodes are stopped gracefully, newest first. A parameter server that is removed moves its
partitions to the others first; training continues meanwhile. With `--move-off` a server moves a share of its partitions (all,
unless `--share` is lower) to the others and stays.

With `--seats` each worker of an allreduce job hosts that many virtual workers from the next step on, so that a slow one holds
up the others less; `--seats even` undoes it. Name every worker; the numbers must add up to the job's virtual workers. The
result of training does not depend on it.

The number must be within the role's limits: to allow a job to grow, start it with `--workers MIN:MAX`, or `--max-workers` and
`--max-ps` of `pliant train`.

New resources apply to running nodes too: in place where the platform can resize a running node (this machine), else by
replacing them one by one (Kubernetes): workers leave at a step boundary, parameter servers after their partitions moved.
Choose with `--in-place` or `--rolling`. `pliant status` shows the progress.

Exit code: 0 accepted, 1 the master is unavailable, 2 a usage error, refused, or the job has ended.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson, Context, Folder, NamedJob, Namespace, cluster_of
from pliant.cli.render.terminal import say
from pliant.core.errors import InvalidRequest
from pliant.core.plurals import counted
from pliant.core.resources import RolloutMode
from pliant.handles.find import find_job_handle
from pliant.handles.job_handle import RoleChange, RoleChanged, resource_amounts

MAX_DIGITS = 7  # of a number of virtual workers
EXAMPLE = "for example: pliant scale clicks ps=3, or pliant scale clicks worker --cpu 2 --memory 4Gi"


def scale(
    name: NamedJob = None,
    counts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ROLE | ROLE=N]...",
            help="New node count per role, or the role that --cpu, --memory and --gpu apply to.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-n", min=0, metavar="N", help="Number of workers.")
    ] = None,
    role: Annotated[
        str | None, typer.Option("--role", metavar="ROLE", help="Role for --replicas or resources.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=0, metavar="N", help="Number of nodes in the role.")
    ] = None,
    cpu: Annotated[str | None, typer.Option(metavar="2 | 500m", help="CPUs per node of the role.")] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="512Mi | 4Gi", help="Memory per node of the role; 0: no limit.")
    ] = None,
    gpu: Annotated[int | None, typer.Option(min=0, help="GPUs per node of the role.")] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Resize running nodes in place, or refuse the request.")
    ] = False,
    rolling: Annotated[bool, typer.Option("--rolling", help="Replace running nodes one by one.")] = False,
    move_off: Annotated[
        str | None,
        typer.Option("--move-off", metavar="NODE", help="Move partitions of this parameter server to the others."),
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            "--share", min=0.0, max=1.0, metavar="PART", help="With --move-off: share of its partitions to move."
        ),
    ] = 1.0,
    seats: Annotated[
        str | None,
        typer.Option(
            "--seats",
            metavar="NODE=N,... | even",
            help="Virtual workers that each worker of an allreduce job hosts.",
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Reason, recorded in the job's events.")
    ] = "requested by the user",
    job_dir: Folder = None,
    as_json: AsJson = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    given = {"cpu": cpu, "memory": memory, "gpu": gpu}
    has_resources = any(amount is not None for amount in given.values())
    if name is not None and ("=" in name or (job_dir is not None and has_resources)):  # the job is given by its folder
        counts = [name, *(counts or [])]
        name = None
    named = [count for count in counts or [] if "=" not in count]
    targets = [_target(count) for count in counts or [] if "=" in count]
    if name is None and job_dir is None:
        raise InvalidRequest("no job given: specify NAME or --job-dir", hint="list jobs with `pliant jobs`")
    if seats is not None:
        if workers is not None or replicas is not None or targets or named or has_resources or move_off is not None:
            raise InvalidRequest("specify either --seats or a number of nodes, not both")
        wanted_seats = _seats(seats)
        handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
        hosted = handle.assign_seats(wanted_seats, reason)
        if as_json:
            print(json.dumps({"seats": hosted}))
        else:
            say(f"{handle.name}: virtual workers {', '.join(f'{node} {count}' for node, count in hosted.items())}")
        return
    if move_off is not None:
        if workers is not None or replicas is not None or targets or named or has_resources:
            raise InvalidRequest("specify either --move-off NODE or a number of nodes, not both")
        where = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
        seat, partitions = where.move_off(move_off, share, reason)
        if as_json:
            print(json.dumps({"node": move_off, "seat": seat, "share": share, "partitions": partitions}))
        else:
            say(f"{where.name}: {share:.0%} of the {partitions} partitions of {move_off} move to other servers")
        return
    if workers is not None:
        targets.append(("worker", workers))
    if len(named) > 1 or (named and role is not None):
        raise InvalidRequest(f"{' and '.join(named)}: specify one role, or ROLE=N for each", hint=EXAMPLE)
    role = named[0] if named else role
    if replicas is not None:
        targets.append((role or "worker", replicas))
    twice = len({target_role for target_role, _ in targets}) < len(targets) or None not in (workers, replicas)
    if twice or not (targets or has_resources) or (role is not None and replicas is None and not has_resources):
        raise InvalidRequest(
            "give either --workers N, or ROLE --replicas N, or ROLE=N for each role once, or ROLE and its --cpu or --memory",
            hint=EXAMPLE,
        )
    if (in_place or rolling) and (not has_resources or in_place == rolling):
        raise InvalidRequest("--in-place and --rolling require --cpu, --memory or --gpu", hint=EXAMPLE)
    changes = {target_role: RoleChange(target_role, wanted) for target_role, wanted in targets}
    if has_resources:
        of_role = role or (targets[0][0] if len(targets) == 1 else "worker")
        mode = RolloutMode.IN_PLACE if in_place else RolloutMode.ROLLING if rolling else RolloutMode.AUTO
        amounts = resource_amounts({key: amount for key, amount in given.items() if amount is not None})
        changes[of_role] = replace(changes.get(of_role) or RoleChange(of_role), rollout=mode, **amounts)
    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    wanted = list(changes.values())
    for change, changed in zip(wanted, handle.scale(wanted, reason), strict=True):
        _show(handle.name, change, changed, as_json=as_json)


def _show(job: str, wanted: RoleChange, changed: RoleChanged, *, as_json: bool) -> None:
    if as_json:
        found: dict[str, object] = {"role": wanted.role, "before": changed.before, "now": changed.now}
        if wanted.resources:
            found |= {"resources": wanted.resources, "nodes": changed.outdated, "in_place": changed.in_place}
        print(json.dumps(found))
        return
    if wanted.replicas is not None:
        say(f"{job}: {wanted.role} {changed.before} -> {changed.now}")
    if wanted.resources:
        units = {"cpu": "CPU", "memory_mb": "MB", "gpu": "GPU"}
        amounts = ", ".join(f"{amount:g} {units[name]}" for name, amount in wanted.resources.items())
        how = "resized in place" if changed.in_place else "to be replaced one by one"
        say(f"{job}: {wanted.role} {amounts} each; {counted(changed.outdated, 'running node')} {how}")


def _seats(text: str) -> dict[str, int]:
    """Empty: evenly."""
    if text == "even":
        return {}
    found: dict[str, int] = {}
    for part in text.split(","):
        node, _, number = part.strip().partition("=")
        if not node or node in found or not (number.isascii() and number.isdecimal()) or len(number) > MAX_DIGITS:
            raise InvalidRequest(
                f"--seats {text}: not a list of NODE=N, each node once",
                hint="for example: --seats worker-0=3,worker-1=1, or --seats even",
            )
        found[node] = int(number)
    return found


def _target(count: str) -> tuple[str, int]:
    role, _, number = count.partition("=")
    if not role or not number.isdecimal():
        raise InvalidRequest(f"{count!r} is not ROLE=N", hint="for example: pliant scale clicks ps=3")
    return role, int(number)
