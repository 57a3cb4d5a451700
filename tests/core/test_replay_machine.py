"""Kill a master at any instant: what its successor replays is the same job, to the last field of its status.

Random histories over all state machines of a job, as a journal has them: operations as JSON, and now and then a snapshot
that drops the operations before it.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from pliant.core.errors import PliantError
from pliant.core.job_state import JobSnapshot, JobState, Operation
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.progress import TrainingProgress, progress_to_json
from pliant.core.shards.book import ShardBook
from pliant.core.status import JobStatus
from pliant.core.status_builder import build_status
from pliant.spec import JobSpec, initial_state

ROLE = {
    "command": ["python", "train.py"],
    "replicas": {"min": 0, "max": 4, "wanted": 2},
    "resources": {"memory": 1000},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "none": {"worker": ROLE},
    "allreduce": {"worker": ROLE},
    "ps-sync": {"worker": ROLE, "ps": ROLE},
    "ps-async": {"worker": ROLE, "ps": ROLE},
}
DATASETS = ("train", "clicks")
TOPIC = {"name": "topic", "shard_size": 3, "stream": True, "partitions": [["0", 1], ["1", 0]]}
TABLE = {"kind": "table", "name": "users", "dim": 4}

pick = st.integers(0, 30)
seconds = st.floats(0.0, 40.0, allow_nan=False)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


class Replay(RuleBasedStateMachine):
    @initialize(
        strategy=st.sampled_from(sorted(STRATEGIES)),
        size=st.integers(1, 50),
        shuffle=st.booleans(),
        found=st.sampled_from([(0, 0), (2, 0), (3, 1)]),
    )
    def begin(self, strategy: str, size: int, shuffle: bool, found: tuple[int, int]) -> None:
        """``found``: so many living and finished nodes of a master whose journal is lost."""
        fault = {"unschedulable": {"give_up_after": 30}}
        self.spec = JobSpec.from_dict(
            {"name": "replayed", "strategy": strategy, "roles": STRATEGIES[strategy], "fault": fault}
        )
        self.now = 1000.0
        self.state = initial_state(self.spec)
        self.snapshot: JobSnapshot | None = None
        self.operations: list[Operation] = []
        self.requests: dict[str, int] = {}  # session -> its last request
        self.held: dict[str, list[int]] = {}  # session -> leases
        self.sequences: dict[str, int] = {}
        self.do("job", "master_started")
        self.take_over(*found)
        self.do("nodes", "start")
        for name in DATASETS:
            dataset = {"name": name, "size": size, "shard_size": 7, "epochs": 2, "shuffle": shuffle, "max_failures": 1}
            self.do("shards", "create", dataset=dataset, origin=f"{name} of this job")
        self.do("shards", "create", dataset=TOPIC, origin="topic of this job")
        self.own_positions: list[dict[str, Any]] = []
        other = ShardBook()
        for name in DATASETS:
            dataset = {"name": name, "size": size, "shard_size": 7, "shuffle": shuffle}
            other.create(0.0, dataset=dataset, origin=f"{name} of another job")
        other.commit(0.0, dataset="train", shards=1)
        self.foreign_position = through_json(other.checkpoint())

    def take_over(self, living: int, finished: int) -> None:
        if not living:
            return
        names = [f"worker-{number}" for number in range(living + finished)]
        self.do("job", "journal_lost", outcome="TakenOver", message="a test")
        self.do("nodes", "adopt", living=names[:living], succeeded=names[living:], ended=["worker-9"])
        self.do("rendezvous", "take_over", members=names[:living])

    def do(self, machine: str, method: str, **arguments: Any) -> Any:
        """As the journal does: what is refused leaves no trace."""
        if machine not in self.state.machines():
            return None
        operation = Operation(machine, method, self.now, arguments)
        try:
            result = self.state.apply(operation)
        except PliantError:
            return None
        self.operations.append(Operation(machine, method, self.now, through_json(arguments)))
        return result

    def node(self, number: int) -> str:
        assert self.state.nodes is not None
        known = self.state.nodes.nodes()
        return known[number % len(known)].name if known else "worker-0"

    # --- progress

    @rule(step=st.integers(0, 9), total=st.integers(0, 9), loss=st.none() | st.floats(0, 1), passed=seconds)
    def note_progress(self, step: int, total: int, loss: float | None, passed: float) -> None:
        self.now += passed
        progress = TrainingProgress(step, total, records_done=step * 7, metrics={"loss": loss})
        self.do("progress", "note", progress=progress_to_json(progress))

    @rule(step=st.integers(0, 9), directory=st.sampled_from(["/a", "s3://b"]), fails=st.booleans(), passed=seconds)
    def write_a_checkpoint(self, step: int, directory: str, fails: bool, passed: float) -> None:
        self.now += passed
        if fails:
            self.do("checkpoints", "failed", directory=directory, step=step, node="worker-0", reason="no", hint="")
        else:
            self.do("checkpoints", "completed", directory=directory, step=step)

    # --- nodes

    @rule(passed=seconds)
    def launch_what_is_due(self, passed: float) -> None:
        self.now += passed
        assert self.state.nodes is not None
        for launch in self.state.nodes.due(self.now):
            self.do("nodes", "accepted", node=launch.node)

    @rule(number=pick, pid=st.integers(1, 9999))
    def register(self, number: int, pid: int) -> None:
        assert self.state.nodes is not None
        name = self.node(number)
        self.do("nodes", "registered", node=name, agent_pid=pid, host="a", address="10.0.0.1", incarnation=pid % 3)
        incarnation = self.state.nodes.get(name).incarnation if self.state.nodes.nodes() else 0
        self.do("nodes", "program_started", node=name, incarnation=incarnation, pid=pid + 1)
        self.do("parameters", "join", node=name, incarnation=incarnation)

    @rule(number=pick, reason=st.sampled_from(sorted(ExitReason)))
    def exit_program(self, number: int, reason: ExitReason) -> None:
        assert self.state.nodes is not None
        node = self.node(number)
        incarnation = self.state.nodes.get(node).incarnation if self.state.nodes.nodes() else 0
        if reason is ExitReason.ERROR:
            self.do("job", "failed", node=node, kind="Error", message="no", traceback="", log="")
        told = {"node": node, "incarnation": incarnation, "exit_reason": reason.value, "message": "it ended"}
        self.do("nodes", "program_exited", **told)
        self.do("shards", "close_node", node=node, incarnation=incarnation, blame="")
        self.forget_sessions()
        self.do("rendezvous", "died", member=node, incarnation=None)

    @rule(number=pick, reason=st.sampled_from(sorted(ExitReason)))
    def end_node(self, number: int, reason: ExitReason) -> None:
        node = self.node(number)
        self.do("nodes", "node_ended", node=node, exit_reason=reason.value, message="gone", host="a")
        self.do("parameters", "lost", node=node, for_good=True)

    @rule(number=pick)
    def find_no_room(self, number: int) -> None:
        self.do("nodes", "unschedulable", node=self.node(number), message="0/2 nodes are available")

    @rule(memory=st.sampled_from([None, 500, 64_000]), passed=seconds)
    def learn_the_machines(self, memory: int | None, passed: float) -> None:
        machine = {"cpu": 8.0, "memory_mb": memory, "gpu": None}
        self.do("nodes", "set_capacity", machines=None if memory is None else [machine])
        self.now += passed
        assert self.state.nodes is not None
        for found in self.state.nodes.hopeless(self.now):
            self.do("nodes", "abandon", node=found.node)

    @rule(role=st.sampled_from(["worker", "ps"]), replicas=st.integers(0, 5))
    def scale(self, role: str, replicas: int) -> None:
        self.do("nodes", "scale", role=role, replicas=replicas, reason="a test")

    @rule(
        role=st.sampled_from(["worker", "ps"]),
        memory=st.sampled_from([100, 200]),
        rollout=st.sampled_from(["in-place", "rolling"]),
    )
    def set_resources(self, role: str, memory: int, rollout: str) -> None:
        resources = {"cpu": 1.0, "memory_mb": memory, "gpu": 0}
        self.do("nodes", "set_resources", role=role, resources=resources, rollout=rollout, reason="a test")

    @rule(role=st.sampled_from(["worker", "ps"]), method=st.sampled_from(["surge", "settle"]), number=pick)
    def roll_out(self, role: str, method: str, number: int) -> None:
        assert self.state.nodes is not None
        if role in self.state.nodes.roles() and self.state.nodes.role(role).rollout is not None:
            mine = self.state.nodes.active(role)
            node = mine[number % len(mine)].name if mine else ""
            self.do("nodes", method, role=role, node=node, reason="a test")
        for resize in self.state.nodes.resizes():
            asked = resize.resources.to_json()
            self.do("nodes", "resized", node=resize.node, resources=asked, version=resize.version)
        if role in self.state.nodes.roles():
            self.do("nodes", "rolled_out", role=role)

    @rule(method=st.sampled_from(["suspend", "resume"]))
    def suspend_or_resume(self, method: str) -> None:
        self.do("nodes", method, reason="a test")

    @rule(phase=st.sampled_from(["Stopped", "Failed", "Succeeded"]))
    def end_and_resume_the_job(self, phase: str) -> None:
        self.do("job", "end", phase=phase, reason="a test")
        self.do("nodes", "stop", reason="a test")
        self.do("rendezvous", "close")
        if self.do("job", "resume"):
            self.do("shards", "retry_parked")
            self.do("nodes", "reopen", reason="resumed", work_roles=["worker"])
            self.do("rendezvous", "reopen")

    # --- data

    @rule(
        session=st.sampled_from("abc"),
        number=pick,
        dataset=st.sampled_from([*DATASETS, TOPIC["name"]]),
        want=st.integers(1, 4),
        reported=st.lists(st.sampled_from(["done", "failed", "released"]), max_size=3),
        waiting=st.booleans(),
        passed=seconds,
    )
    def exchange(
        self, session: str, number: int, dataset: str, want: int, reported: list[str], waiting: bool, passed: float
    ) -> None:
        self.now += passed
        self.do("shards", "open_session", session=session, node=self.node(number), incarnation=0)
        held = self.held.get(session, [])
        leases = dict(zip(held, reported, strict=False))
        answer = self.do(
            "shards",
            "exchange",
            session=session,
            request=self.requests.get(session, 0) + 1,
            dataset=dataset,
            want=want,
            done=[lease for lease, what in leases.items() if what == "done"],
            failed=[[lease, "bad record"] for lease, what in leases.items() if what == "failed"],
            released=[lease for lease, what in leases.items() if what == "released"],
            waiting=waiting,
        )
        if answer is not None:
            self.requests[session] = self.requests.get(session, 0) + 1
            self.held[session] = [lease for lease in held if lease not in leases]
            self.held[session] += [lease.number for lease in answer.leases]

    @rule(partition=st.sampled_from("012"), records=st.integers(0, 9), close=st.sampled_from([False] * 9 + [True]))
    def grow(self, partition: str, records: int, close: bool) -> None:
        self.do("shards", "grow", dataset="topic", partition=partition, records=records, close=close)

    @rule(session=st.sampled_from("abc"))
    def close_session(self, session: str) -> None:
        self.do("shards", "close_session", session=session, blame="")
        self.forget_sessions()

    @rule(session=st.sampled_from("abc"), dataset=st.sampled_from(DATASETS))
    def time_out(self, session: str, dataset: str) -> None:
        self.do("shards", "expire", session=session, dataset=dataset)

    @rule(number=pick)
    def lose_records(self, number: int) -> None:
        self.do("shards", "lose_node", node=self.node(number), incarnation=None, message="killed")
        self.forget_sessions()

    @rule()
    def save_position(self) -> None:
        assert self.state.shards is not None
        self.own_positions.append(through_json(self.state.shards.checkpoint()))

    @rule(number=pick)
    def restore_position(self, number: int) -> None:
        positions = [self.foreign_position, *self.own_positions]
        self.do("shards", "restore_checkpoint", checkpoint=positions[number % len(positions)])

    def forget_sessions(self) -> None:
        """Of those that are closed: a new session of the same name begins with request 1."""
        assert self.state.shards is not None
        gone = [name for name in self.requests if not self.state.shards.has_session(name)]
        for name in gone:
            del self.requests[name], self.held[name]

    # --- worlds, training, parameter servers

    @rule(numbers=st.lists(pick, min_size=1, max_size=3), step=st.integers(0, 9), passed=seconds)
    def meet(self, numbers: list[int], step: int, passed: float) -> None:
        for node in {self.node(number) for number in numbers}:
            self.do("rendezvous", "join", member=node, incarnation=f"{node}/1", attrs={}, step=step, after=None)
        self.do("rendezvous", "expect", count=len(numbers))
        self.now += passed
        if self.state.rendezvous is not None and self.state.rendezvous.due(self.now):
            self.do("rendezvous", "form")

    @rule(numbers=st.lists(pick, min_size=1, max_size=3), round=st.integers(1, 9))
    def announce(self, numbers: list[int], round: int) -> None:
        names = sorted({self.node(number) for number in numbers})
        told = [
            {"name": name, "incarnation": f"{name}/1", "attrs": {}, "step": round, "seniority": at}
            for at, name in enumerate(names, start=1)
        ]
        world = {"round": round, "members": told, "formed_at": 1.0}
        self.do("rendezvous", "announce", member=names[0], incarnation=f"{names[0]}/1", world=world, after=round)
        rank = {"generation": 1 + round % 2, "rank": 0, "world_size": len(names), "addr": "10.0.0.1", "port": 15_000}
        self.do("groups", "adopt", role=names[0].rpartition("-")[0], node=names[0], **rank)

    @rule()
    def stop_awaiting(self) -> None:
        self.do("rendezvous", "stop_awaiting")

    @rule(version=st.integers(0, 20), accuracy=st.floats(0.0, 1.0))
    def evaluate(self, version: int, accuracy: float) -> None:
        evaluation = {"name": "eval", "size": 10, "shard_size": 5, "type": "eval"}
        self.do("training", "define", evaluation=evaluation, monitor="accuracy", mode="max")
        self.do("training", "report_version", version=version, evaluate=True)
        self.do("training", "close_round", version=version, metrics={"accuracy": accuracy}, records=10)

    @rule(seat=st.integers(0, 3))
    def serve_parameters(self, seat: int) -> None:
        book = self.state.parameters
        if book is not None and seat < len(book.seats()):
            token = book.seats()[seat].fencing_token
            self.do("parameters", "ready", seat=seat, fencing_token=token, address=f"10.0.0.{seat}:1")

    @rule(session=st.sampled_from("abc"), examples=st.integers(1, 64))
    def push(self, session: str, examples: int) -> None:
        book = self.state.parameters
        if book is None:
            return
        self.do("parameters", "define", tables=[TABLE], variables=[])
        sequence = self.sequences[session] = self.sequences.get(session, 0) + 1
        self.do(
            "parameters",
            "contribute",
            session=session,
            sequence=sequence,
            based_on=book.iteration,
            examples=examples,
            holders=[[seat.number, seat.fencing_token] for seat in book.seats()],
            map_version=book.map.version,
        )
        self.do("parameters", "flush")

    # --- the master

    @rule()
    def take_snapshot(self) -> None:
        taken = self.state.snapshot()
        self.snapshot = JobSnapshot(through_json(taken.state), through_json(taken.definitions))
        self.operations.clear()

    @rule()
    def kill_the_master(self) -> None:
        """Its successor continues from what the journal has."""
        self.check()
        self.state = self.replayed()
        self.do("job", "master_started")

    def replayed(self) -> JobState:
        state = initial_state(self.spec)
        state.replay(self.snapshot, self.operations, source="the journal")
        return state

    def status_of(self, state: JobState) -> JobStatus:
        return build_status("replayed", state, self.now)

    def check(self) -> None:
        successor = self.replayed()
        assert self.status_of(successor) == self.status_of(self.state)
        assert through_json(successor.snapshot().state) == through_json(self.state.snapshot().state)

    def teardown(self) -> None:
        if hasattr(self, "state"):
            self.check()


Replay.TestCase.settings = settings(max_examples=25, stateful_step_count=50)
TestReplay = Replay.TestCase
