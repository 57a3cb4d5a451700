"""Any sequence of requests: each is carried out as a whole or leaves the state as it was, and counts once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pliant.core.change_resolver import apply_request, decide
from pliant.core.changes import (
    Answer,
    AssignSeats,
    Change,
    ChangeRequest,
    DesiredJob,
    DesiredRole,
    MovePartitions,
    RemoveNode,
    ReplaceNode,
    RequestSource,
    Resume,
    Scale,
    SetLimits,
    SetResources,
    Stop,
    Suspend,
)
from pliant.core.end_policy import PARAMETER_SERVER
from pliant.core.job_state import JobSnapshot, JobState
from pliant.core.resources import Resources, RolloutMode
from pliant.spec import JobSpec, initial_state

ROLE = {"command": ["train"], "replicas": {"min": 1, "max": 4, "wanted": 2}}
SPECS = [
    JobSpec.from_dict({"name": "a", "roles": {"worker": ROLE}}),
    JobSpec.from_dict({"name": "b", "strategy": "ps-async", "roles": {"worker": ROLE, "ps": ROLE}}),
    JobSpec.from_dict({"name": "d", "strategy": "allreduce", "roles": {"worker": ROLE}}),
    JobSpec.from_dict({"name": "c", "strategy": "ps-sync", "roles": {"worker": ROLE, "ps": {**ROLE, "replicas": 1}}}),
]

roles = st.sampled_from(["worker", "worker", "ps", "nobody"])
nodes = st.builds("{}-{}".format, st.sampled_from(["worker", "ps"]), st.integers(0, 6))
small = st.integers(-1, 6)
resources = st.builds(Resources, st.sampled_from([-1.0, 1.0, 2.0]), st.integers(0, 100))
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(Scale, roles, small),
    st.builds(SetLimits, roles, small, small),
    st.builds(SetResources, roles, resources, st.sampled_from(RolloutMode)),
    st.builds(ReplaceNode, nodes, st.none() | resources),
    st.builds(RemoveNode, nodes),
    st.builds(Suspend),
    st.builds(Resume),
    st.builds(MovePartitions, nodes, st.sampled_from([0.0, 0.25, 1.0])),
    st.builds(AssignSeats, st.fixed_dictionaries({"worker-0": st.integers(0, 5), "worker-1": st.integers(2, 4)})),
    st.builds(AssignSeats, st.dictionaries(nodes, small, max_size=2)),
)
edited_role = st.builds(DesiredRole, st.integers(0, 2), st.integers(2, 5), small, resources)
edits = st.builds(DesiredJob, st.dictionaries(st.sampled_from(["worker", "ps"]), edited_role), st.booleans())


def through_json(snapshot: JobSnapshot) -> JobSnapshot:
    return JobSnapshot(json.loads(json.dumps(snapshot.state)), json.loads(json.dumps(snapshot.definitions)))


def books_of(state: JobState) -> dict[str, Any]:
    """All that is decided but for the answers."""
    return {name: book for name, book in through_json(state.snapshot()).state.items() if name != "changes"}


class Requests(RuleBasedStateMachine):
    @initialize(spec=st.sampled_from(SPECS))
    def begin(self, spec: JobSpec) -> None:
        self.spec = spec
        self.state = initial_state(spec)
        self.now = 0.0
        self.sent: dict[str, ChangeRequest] = {}
        self.answers: dict[str, Answer] = {}
        assert self.state.nodes is not None
        self.state.nodes.start(0.0)
        for node in self.state.nodes.live():
            self.state.nodes.accepted(0.0, node=node.name)
            if self.state.parameters is not None and node.role == PARAMETER_SERVER:
                self.state.parameters.join(0.0, node=node.name, incarnation=0)
        if self.state.rendezvous is not None:
            self.state.rendezvous.expect(0.0, count=2)
            for node in self.state.nodes.live():
                attrs = {"virtual_workers": "5"}
                self.state.rendezvous.join(0.0, member=node.name, incarnation="0", attrs=attrs)

    def send(self, request: ChangeRequest) -> None:
        assert self.state.changes is not None
        self.now += 1.0
        before, snapshot = books_of(self.state), self.state.snapshot()
        stale = request.base_version not in (None, self.state.changes.version)
        expected = None if stale else self.one_after_the_other(request)
        decision = decide(self.state, request, self.now)
        assert self.state.snapshot() == snapshot, "to decide is only to read"
        answer = apply_request(self.state, request, self.now)
        assert answer == decision.answer
        assert books_of(self.state) == (before if expected is None else expected)
        assert bool(answer.refusal) == (expected is None or bool(request.problem))
        assert answer.version == self.state.changes.version
        self.sent[request.id], self.answers[request.id] = request, answer

    def one_after_the_other(self, request: ChangeRequest) -> dict[str, Any] | None:
        """What its changes lead to if each is a request of its own; None: one of them is refused."""
        assert self.state.changes is not None
        other = initial_state(self.spec)
        other.restore(through_json(self.state.snapshot()))
        for change in self.state.changes.changes_of(request):
            alone = ChangeRequest("", RequestSource.PERSON, (change,), request.reason)
            if apply_request(other, alone, self.now).refusal:
                return None
        return books_of(other)

    def new_id(self) -> str:
        return f"r{len(self.sent)}"

    @rule(asked=st.lists(changes, min_size=1, max_size=4), stale=st.booleans())
    def ask_for_changes(self, asked: list[Change], stale: bool) -> None:
        assert self.state.changes is not None
        base = self.state.changes.version - 1 if stale else None
        self.send(ChangeRequest(self.new_id(), RequestSource.PERSON, tuple(asked), "a test", base_version=base))
        if stale:
            assert self.answers[f"r{len(self.sent) - 1}"].error == "Conflict"

    @rule(desired=edits, problem=st.sampled_from(["", "", "it is wrong"]), by_master=st.booleans())
    def edit(self, desired: DesiredJob, problem: str, by_master: bool) -> None:
        request = ChangeRequest(
            self.new_id(), RequestSource.EDIT, desired=desired, problem=problem, by_master=by_master and not problem
        )
        self.send(request)

    @rule(pick=st.integers(0, 100))
    def send_again(self, pick: int) -> None:
        if self.sent:
            request = list(self.sent.values())[pick % len(self.sent)]
            before = self.state.snapshot()
            assert apply_request(self.state, request, self.now + 99) == self.answers[request.id]
            assert self.state.snapshot() == before

    @rule()
    def restart(self) -> None:
        saved = through_json(self.state.snapshot())
        self.state = initial_state(self.spec)
        self.state.restore(saved)
        assert through_json(self.state.snapshot()) == saved

    @rule(at_once=st.booleans(), rarely=st.integers(0, 9))
    def stop(self, at_once: bool, rarely: int) -> None:
        if rarely == 0:
            self.send(ChangeRequest(self.new_id(), RequestSource.PERSON, (Stop(at_once=at_once),)))
            assert self.state.job.over

    @invariant()
    def no_server_is_removed_while_it_has_parameters(self) -> None:
        if not hasattr(self, "state") or self.state.parameters is None or self.state.job.over:
            return
        assert self.state.nodes is not None
        if self.state.nodes.suspended:
            return
        replaced = {node.replaces for node in self.state.nodes.nodes()}
        for seat in self.state.parameters.seats():
            if seat.node and not self.state.parameters.map.is_empty(seat.number):
                node = self.state.nodes.get(seat.node)
                assert node.is_active or node.name in replaced or node.parked


TestRequests = Requests.TestCase
TestRequests.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
