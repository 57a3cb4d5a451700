"""Permanent errors of a program: what a restart would only repeat.

The agent recognises them by what is left of the program (``agent/permanent_errors.py``). Whether the job fails at once is
decided by ``FaultPolicy``, from how far the job got (``core/job_progress.py``) and on how many machines the error was seen: one
that was seen once may be the fault of its machine (an image without a package, a file system that is not mounted), and a job that
has worked before is not broken as a whole.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class JobProgress(IntEnum):
    """How far a job has got; found by ``core/job_progress.py``."""

    NONE = 0  # as far as is known, no program got anywhere
    CONNECTED = 1  # programs have met in a world or a process group: their imports and arguments were right
    TRAINED = 2  # records were accepted, steps done, or a program finished


class PermanentKind(StrEnum):
    MISSING_MODULE = "MissingModule"  # or one that cannot be imported
    SYNTAX_ERROR = "SyntaxError"
    USAGE_ERROR = "UsageError"  # the program rejected its own arguments
    COMMAND_NOT_FOUND = "CommandNotFound"  # or not executable
    SCRIPT_NOT_FOUND = "ScriptNotFound"  # that the interpreter was to run
    INVALID_REQUEST = "InvalidRequest"  # Pliant rejected what the program asked for
    CHECKPOINT_DESTINATION = "CheckpointDestination"  # checkpoints cannot be written where they shall go

    @property
    def may_be_of_one_machine(self) -> bool:
        return self in _OF_ONE_MACHINE

    def is_of_whole_job(self, progress: JobProgress) -> bool:
        """Whether every program of the job must be expected to fail so. Requests to Pliant are often made after they have met."""
        return progress <= (JobProgress.CONNECTED if self in _AFTER_MEETING else JobProgress.NONE)

    def in_words(self) -> str:
        return _IN_WORDS[self]


class PermanentErrors(StrEnum):
    """What follows a permanent error."""

    FAIL = "fail"  # the job fails at once
    RETRY = "retry"  # it is restarted like after any other error


_OF_ONE_MACHINE = frozenset(
    {PermanentKind.MISSING_MODULE, PermanentKind.COMMAND_NOT_FOUND, PermanentKind.SCRIPT_NOT_FOUND}
)
_AFTER_MEETING = frozenset({PermanentKind.INVALID_REQUEST, PermanentKind.CHECKPOINT_DESTINATION})
_IN_WORDS = {
    PermanentKind.MISSING_MODULE: "a module cannot be imported",
    PermanentKind.SYNTAX_ERROR: "the program has a syntax error",
    PermanentKind.USAGE_ERROR: "the program rejected its arguments",
    PermanentKind.COMMAND_NOT_FOUND: "the command cannot be run",
    PermanentKind.SCRIPT_NOT_FOUND: "the script does not exist",
    PermanentKind.INVALID_REQUEST: "Pliant rejected a request of the program",
    PermanentKind.CHECKPOINT_DESTINATION: "checkpoints cannot be written",
}
