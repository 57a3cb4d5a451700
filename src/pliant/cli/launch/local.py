"""Launching a job on this machine: its master is started and supervised, here while the job is followed, or in the background.

``launch/job_folder.py`` has made the folder. If the first master cannot start, for a reason that no other start mends, that is
taken back, and the reason is the command's error.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pliant.cli.following.interrupts import Interrupts
from pliant.cli.options.run import FollowOptions, StartOptions
from pliant.cli.render.terminal import say
from pliant.core.errors import PermanentError
from pliant.handles.job_dirs import argument_of
from pliant.launch.background import launch_in_background
from pliant.launch.job_folder import PreparedJob

if TYPE_CHECKING:
    from pliant.core.summary import JobSummary


def start(job: PreparedJob, options: StartOptions, *, output: bool = True) -> JobSummary:
    """Follow it to its end and return its summary; with ``--detach``, start it in the background and exit."""
    if job.platform == "ray":
        from pliant.cli.launch.ray import follow_on_ray
        from pliant.launch.ray import launch_on_ray

        launch_on_ray(job)
        if not options.detach:
            return follow_on_ray(job, options, output=output)
    elif not options.detach:
        return launch(job, options, output=output)
    else:
        launch_in_background(job)
    name, home = argument_of(job.home), str(job.home.path)
    if options.as_json:
        print(json.dumps({"name": job.home.name, "job_dir": home}, indent=1))
    elif not options.quiet:
        say(f"job {job.home.name} runs in the background; files in {home}")
        say(f"  pliant attach {name}   follow it\n  pliant status {name}   see how it is doing")
        say(f"  pliant stop {name}     stop it")
    sys.exit(0)


def launch(job: PreparedJob, options: FollowOptions, *, output: bool = True) -> JobSummary:
    """Start and supervise the master, and follow the job until it is over; returns its summary."""
    from pliant.master.supervisor import SupervisedMaster, Supervisor

    supervisor = Supervisor(job.home)
    supervisor.acquire()
    with Interrupts() as interrupts:
        try:
            supervisor.start_master()
            from pliant.cli.following.follow import Follower  # gRPC and rich are imported while the master starts
            from pliant.handles.local import LocalJob

            handle = LocalJob(job.home)
            tail = 0 if job.is_resumed else None  # what was shown before is not shown again
            follower = Follower(handle, interrupts, tail=tail, **options.shown(output=output))
            follower.introduce(f"job {handle.name}: files in {handle.where}")
            supervisor.on_restart = follower.say
            master = SupervisedMaster(supervisor)
            master.start()
            return follower.follow(master)
        except PermanentError:
            if not supervisor.has_served:
                job.undo()
            raise
        finally:
            supervisor.release()
