from __future__ import annotations

from pliant.brain.optimize_events import EventKind
from pliant.brain.processor import CHAINS, chain_of
from pliant.core.planning.registry import BUILT_IN


def test_every_event_has_algorithms_and_every_algorithm_an_event() -> None:
    assert set(CHAINS) == set(EventKind)
    assert {name for chain in CHAINS.values() for name in chain} == set(BUILT_IN)


def test_uneven_servers_and_too_few_servers_are_dealt_with_differently() -> None:
    assert chain_of(EventKind.SERVERS_UNEVEN)[0] == "hot_ps"
    assert chain_of(EventKind.SERVERS_BUSY)[0] == "plan_job"


def test_a_job_chooses_among_the_algorithms_and_adds_its_own() -> None:
    assert chain_of(EventKind.MEASURED, ("team_rule", "probe")) == ("team_rule", "probe")
    assert chain_of(EventKind.OUT_OF_MEMORY, ("team_rule", "probe")) == ()
    assert chain_of(EventKind.OUT_OF_MEMORY, ("oom_recover",)) == ("oom_recover",)
    assert chain_of(EventKind.CREATED, ("probe",)) == ("create_from_history",), "it is asked before anything is known"
