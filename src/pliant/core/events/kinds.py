"""The kinds of events, as ``pliant events`` prints them."""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    # the master and the job
    MASTER = "master"
    JOURNAL_LOST = "journal-lost"
    TAKEN_OVER = "taken-over"
    JOB = "job"
    RESUMED = "resumed"
    NOT_COMBINED = "not-combined"
    # nodes and their programs
    LAUNCH = "launch"
    REFUSED = "refused"
    UNSCHEDULABLE = "unschedulable"
    SCHEDULED = "scheduled"
    TOO_LARGE = "too-large"
    RUNNING = "running"
    EXIT = "exit"
    RESTART = "restart"
    ENDED = "ended"
    HANG = "hang"
    FROZEN = "frozen"
    GIVE_UP = "give-up"
    REMOVE = "remove"
    SCALE = "scale"
    ROLLOUT = "rollout"
    ROLLED_OUT = "rolled-out"
    RESIZE = "resize"
    RESIZE_REFUSED = "resize-refused"
    # torchrun groups and elastic worlds
    GROUP_CONNECTED = "group-connected"
    GROUP_RESTART = "group-restart"
    GROUP_FORMED = "group-formed"
    WORLD = "world"
    WORLD_LIMITS = "world-limits"
    WORLD_TAKEN_OVER = "world-taken-over"
    SILENT = "silent"
    # data
    DATASET = "dataset"
    DATASET_ENDED = "dataset-ended"
    DATASET_RESTORED = "dataset-restored"
    SESSION = "session"
    LEASE = "lease"
    # training and evaluation
    EVALUATION = "evaluation"
    EVALUATION_STARTED = "evaluation-started"
    EVALUATION_FAILED = "evaluation-failed"
    BEST_VERSION = "best-version"
    TRAINING_STOPPED = "training-stopped"
    # checkpoints
    CHECKPOINT_FAILED = "checkpoint-failed"
    CHECKPOINT_RECOVERED = "checkpoint-recovered"
    CHECKPOINT_UNUSABLE = "checkpoint-unusable"
    # parameter servers
    PS_RESTORED = "ps-restored"
    PS_DEFINED = "ps-defined"
    PS_SCHEDULE = "ps-schedule"
    PS_SEAT_TAKEN = "ps-seat-taken"
    PS_READY = "ps-ready"
    PS_REPORT = "ps-report"
    PS_LEAVING = "ps-leaving"
    PS_MOVE = "ps-move"
    PS_RETIRED = "ps-retired"
    DUMP = "dump"
    DUMP_FAILED = "dump-failed"
    DUMP_TIMEOUT = "dump-timeout"
    # requests to change the running job
    CHANGE = "change"
    CHANGE_REFUSED = "change-refused"
    CHANGE_NOTE = "change-note"
    CHANGES_UNAVAILABLE = "changes-unavailable"
    # automatic resources
    PLAN = "plan"
    PLAN_ENDED = "plan-ended"
    PLANNER_PAUSED = "planner-paused"
    ALGORITHM_FAILED = "algorithm-failed"
    BRAIN_FOUND = "brain-found"
    BRAIN_LOST = "brain-lost"
    QUOTA_GRANTED = "quota-granted"

    @property
    def reason(self) -> str:
        """As Kubernetes writes the reason of an Event."""
        return "".join(word.capitalize() for word in self.value.split("-"))
