"""Launching a job on this machine: its folder is created, its master started and supervised while the job is followed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from pliant.cli.following.interrupts import Interrupts
from pliant.cli.handles.job_dirs import jobs_home
from pliant.cli.options.run import RunOptions
from pliant.core.errors import Conflict, PliantError
from pliant.files.atomic import write_text
from pliant.files.locks import FileLock
from pliant.master.job_dir import JobDir
from pliant.rpc.identity import create_token_file

if TYPE_CHECKING:
    from pliant.core.summary import JobSummary
from pliant.spec import JobSpec


def prepare(spec: JobSpec, options: RunOptions) -> JobDir:
    """Create the job's folder, with everything in it that a master needs."""
    home = JobDir((options.job_dir or jobs_home() / spec.name).absolute())
    if home.exists():
        over = home.summary_file.exists()
        if FileLock(home.path / "launcher.lock").is_held() or FileLock(home.path / "master.lock").is_held():
            raise Conflict(
                f"job {spec.name} is running in {home.path}", hint="choose another --name, or `pliant stop` it"
            )
        if options.resume and not over:
            return home
        if options.resume:
            raise Conflict(
                f"job {spec.name} has ended; there is nothing to resume", hint=f"see `pliant status {spec.name}`"
            )
        if not options.overwrite:
            how = "ended" if over else "was interrupted"
            options_hint = "--overwrite replaces it" if over else "--resume continues it, --overwrite replaces it"
            raise Conflict(f"there is a job in {home.path}, which {how}", hint=f"choose another --name; {options_hint}")
        shutil.rmtree(home.path)
    elif options.resume:
        raise Conflict(f"there is no job in {home.path} to resume")
    try:
        home.create()
        if options.log_dir is not None:
            home.logs.rmdir()
            options.log_dir.mkdir(parents=True, exist_ok=True)
            home.logs.symlink_to(options.log_dir.absolute(), target_is_directory=True)
        create_token_file(home.token)
        write_text(home.spec, spec.to_yaml())
    except OSError as error:
        raise PliantError(f"cannot write the job's folder {home.path}: {error.strerror}") from error
    return home


def launch(home: JobDir, options: RunOptions, *, output: bool = True) -> JobSummary:
    """Start and supervise the master, and follow the job until it is over; returns its summary."""
    from pliant.master.supervisor import Supervisor

    supervisor = Supervisor(home)
    supervisor.acquire()
    with Interrupts() as interrupts:
        try:
            supervisor.start_master()
            from pliant.cli.following.follow import (  # gRPC and rich are imported while the master starts
                Follower,
                SupervisedMaster,
            )
            from pliant.cli.handles.local import LocalJob

            handle = LocalJob(home)
            follower = Follower(handle, interrupts, **options.shown(output=output))
            follower.say(f"job {handle.name}: files in {handle.where}")
            supervisor.on_restart = follower.say
            master = SupervisedMaster(supervisor)
            master.start()
            return follower.follow(master)
        finally:
            supervisor.release()
