"""The Brain's figures as metrics for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class BrainFigures:
    is_active: bool
    term: int
    jobs: int
    followers: int
    reports: int  # of this turn
    transactions: int
    offers: int
    failed_runs: int
    lost_leases: int
    started: float


_GAUGES = (
    ("is_active", "pliant_brain_active", "1 if this Brain is the active one."),
    ("term", "pliant_brain_term", "Number of the turn of the active Brain."),
    ("jobs", "pliant_brain_jobs", "Running jobs that report."),
    ("followers", "pliant_brain_followers", "Masters that are connected."),
    ("started", "pliant_brain_start_time_seconds", "When this process started."),
)
_COUNTERS = (
    ("reports", "pliant_brain_reports", "Reports written in this turn."),
    ("transactions", "pliant_brain_transactions", "Transactions that reports were written in."),
    ("offers", "pliant_brain_offers", "Offers made in this turn."),
    ("failed_runs", "pliant_brain_failed_algorithm_runs", "Algorithms that raised, hung, died or made no sense."),
    ("lost_leases", "pliant_brain_lost_leases", "Turns that ended because the lease was lost."),
)


class _Collector(Collector):
    def __init__(self, figures: BrainFigures) -> None:
        self._figures = figures

    def collect(self) -> list[Metric]:
        found: list[Metric] = []
        for field, name, text in _GAUGES:
            found.append(GaugeMetricFamily(name, text, value=float(getattr(self._figures, field))))
        for field, name, text in _COUNTERS:
            found.append(CounterMetricFamily(name, text, value=float(getattr(self._figures, field))))
        return found


def metrics_text(figures: BrainFigures) -> str:
    registry = CollectorRegistry()
    registry.register(_Collector(figures))
    return generate_latest(registry).decode()
