"""How many masters a Brain serves, how long a plan takes to arrive, and how much room a job needs in its database.

    python bench/brain.py [--quick] [--rounds N] [--only masters|latency|size] [--json]

A real ``pliant brain serve`` over a PostgreSQL of its own with ``fsync`` on.

masters  100, 200, 500 masters with ten nodes each, reporting every 5 s: what they see, and what it costs. Sustained means that no
         call fails, 99 of 100 reports are answered within a second, and as many come as are due
latency  from the first report of a new job to the offer on its stream, while 10, 100, 1,000 other jobs report
size     a simulated day of one job with ten nodes, as it came, as minutes, and as hours

Everything runs on one machine: masters compete with the Brain for its cores, so their CPU is reported too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brain_size import DAY_REPORTS, measure_size
from brain_testbed import Testbed, testbed
from harness import Client, finish, machine, median, quantile, say, table, together

PARTS = ("masters", "latency", "size")
MASTERS = (100, 200, 500)
JOBS = (10, 100, 1000)
INTERVAL_S = 5.0
WARM_UP_S = 15.0  # the first reports say everything
HELPERS = 2
MAX_P99_S = 1.0
MIN_SHARE = 0.95  # of the reports that are due
CLIENTS = Path(__file__).resolve().parent / "clients"


def client(name: str, bed: Testbed) -> Client:
    return Client([sys.executable, str(CLIENTS / name), str(bed.folder)], {})


# --- masters


def measure_masters(masters: int, seconds: float) -> dict[str, Any]:
    with testbed() as bed:
        helpers = [client("brain_masters.py", bed) for _ in range(HELPERS)]
        try:
            share = masters // len(helpers)
            for number, helper in enumerate(helpers):
                helper.order(do="start", first=number * share, masters=share)
            for helper in helpers:
                helper.answer()
            together(helpers, do="measure", seconds=WARM_UP_S)
            before = bed.meter()
            seen = together(helpers, do="measure", seconds=seconds)
            used = bed.meter().since(before)
            settled = together(helpers, do="settle")
            in_database = bed.ask("SELECT sum(accepted) FROM job_samples")
            lost = bed.ask("SELECT sum(reports_lost + samples_lost) FROM jobs")
            events = bed.ask("SELECT count(*) FROM optimize_events")
            offers = bed.ask("SELECT count(*) FROM plans WHERE offer IS NOT NULL")
            together(helpers, do="stop")
        finally:
            for helper in helpers:
                helper.close()
    spent = [one for each in seen for one in each["seconds"]]
    acknowledged = sum(each["acknowledged"] for each in seen)
    counted = sum(each["counted"] for each in settled)
    found = {
        "masters": masters,
        "seconds": seconds,
        "due": masters * seconds / INTERVAL_S,
        "sent": sum(each["calls"] for each in seen),
        "acknowledged": acknowledged,
        "failed_calls": sum(each["failed"] for each in seen),
        "lost": int(lost),
        "events": int(events),
        "offers": int(offers),
        "p50_s": median(spent),
        "p99_s": quantile(spent, 0.99),
        **used,
        "masters_cores": sum(each["cpu"] for each in seen),
        "records_counted": counted,
        "records_acknowledged": sum(each["acknowledged_records"] for each in settled),
        "records_in_database": int(in_database),
        "broken": sum(each["broken"] for each in settled),
        "load": machine()["load"],
    }
    found["is_exact"] = 0 < counted == found["records_acknowledged"] == found["records_in_database"]
    found["is_sustained"] = (
        found["failed_calls"] == 0
        and found["is_exact"]
        and found["lost"] == 0
        and found["p99_s"] < MAX_P99_S
        and acknowledged >= MIN_SHARE * found["due"]
    )
    return found


def show_masters(found: Sequence[dict[str, Any]]) -> None:
    def row(name: str, key: str, form: str, aim: str = "", scale: float = 1.0) -> tuple[str, ...]:
        return (name, *(format(one[key] * scale, form) for one in found), aim)

    rows = [
        row("reports due", "due", ",.0f"),
        row("sent in the window", "sent", ",.0f"),
        row("acknowledged", "acknowledged", ",.0f", "95 % of due"),
        row("failed calls", "failed_calls", ",.0f", "0"),
        row("reports and samples lost", "lost", ",.0f", "0"),
        row("latency p50, ms", "p50_s", ",.1f", scale=1000),
        row("latency p99, ms", "p99_s", ",.1f", "< 1,000", scale=1000),
        row("CPU of the Brain, % of a core", "brain_cores", ",.0f", "< 100", scale=100),
        row("CPU of PostgreSQL, %", "postgresql_cores", ",.0f", scale=100),
        row("CPU of the masters, %", "masters_cores", ",.0f", scale=100),
        row("rows written/s", "rows_per_s", ",.0f"),
        row("WAL, kB/s", "wal_bytes_per_s", ",.0f", scale=1e-3),
        row("commits/s", "commits_per_s", ",.0f"),
        row("optimize events, from the start", "events", ",.0f"),
        row("offers, from the start", "offers", ",.0f"),
        row("records that masters counted", "records_counted", ",.0f"),
        row("records in the database", "records_in_database", ",.0f", "equal"),
        ("sustained", *("yes" if one["is_sustained"] else "no" for one in found), "yes, at 100"),
        row("load average", "load", ".1f"),
    ]
    seconds = found[0]["seconds"]
    title = f"masters: a report each 5 s, for {seconds:.0f} s (bench/brain.py --only masters)"
    table(title, ("", *(f"{one['masters']} masters" for one in found), "aim"), rows)


# --- latency


def measure_latency(jobs: int, tries: int) -> dict[str, Any]:
    with testbed() as bed:
        helper = client("brain_jobs.py", bed)
        try:
            helper.ask(do="start", jobs=jobs)
            before = bed.meter()
            seen = helper.ask(do="probe", tries=tries)
            used = bed.meter().since(before)
            helper.ask(do="stop")
        finally:
            helper.close()
    return {
        "jobs": jobs,
        "tries": tries,
        "first_s": seen["first"],
        "p50_s": median(seen["seconds"]),
        "p99_s": quantile(seen["seconds"], 0.99),
        "report_p50_s": median(seen["reports"]),
        "others_p99_s": quantile(seen["others"], 0.99),
        "others_failed": seen["failed"],
        **used,
        "load": machine()["load"],
    }


def show_latency(found: Sequence[dict[str, Any]]) -> None:
    def row(name: str, key: str, form: str, aim: str = "", scale: float = 1.0) -> tuple[str, ...]:
        return (name, *(format(one[key] * scale, form) for one in found), aim)

    rows = [
        row("first report to offer, p50, ms", "p50_s", ",.1f", scale=1000),
        row("p99 (the longest), ms", "p99_s", ",.1f", "< 5,000", scale=1000),
        row("the first of all, which starts a process, ms", "first_s", ",.1f", scale=1000),
        row("of which until the report is answered, p50, ms", "report_p50_s", ",.1f", scale=1000),
        row("reports of other jobs, p99, ms", "others_p99_s", ",.1f", scale=1000),
        row("failed calls of other jobs", "others_failed", ",.0f", "0"),
        row("CPU of the Brain, % of a core", "brain_cores", ",.0f", scale=100),
        row("CPU of PostgreSQL, %", "postgresql_cores", ",.0f", scale=100),
        row("load average", "load", ".1f"),
    ]
    title = f"latency of a plan, {found[0]['tries']} tries (bench/brain.py --only latency)"
    table(title, ("", *(f"{one['jobs']:,} jobs" for one in found), "aim"), rows)


# --- size


def show_size(found: Sequence[dict[str, Any]]) -> None:
    def row(name: str, key: str) -> tuple[str, ...]:
        return (name, *(f"{one[key] / 1e6:,.2f}" for one in found), "")

    rows = [
        row("as it came, MB", "raw_bytes"),
        row("as it came, compacted", "raw_compact_bytes"),
        row("as minutes (after a day)", "minutes_bytes"),
        row("as minutes, compacted", "minutes_compact_bytes"),
        row("as hours (after a week), compacted", "hours_compact_bytes"),
        ("reports written/s, one job", *(f"{one['reports_per_s']:,.0f}" for one in found), ""),
        ("roll-up to minutes, s", *(f"{one['roll_up_s']:,.1f}" for one in found), ""),
    ]
    hours = found[0]["reports"] * INTERVAL_S / 3600
    title = f"size of {hours:.0f} h of a job with 10 nodes (bench/brain.py --only size)"
    table(title, ("", *(one["family"] for one in found), "aim"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 s of masters, 100 and 200 of them, an hour of reports")
    parser.add_argument("--rounds", type=int, default=1, help="repeat masters and latency; the median by p99 is shown")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    parts = (options.only,) if options.only else PARTS
    found: dict[str, Any] = {"machine": machine(), "options": vars(options)}
    seconds, tries = (20.0, 10) if options.quick else (60.0, 20)
    if "masters" in parts:
        masters = MASTERS[:2] if options.quick else MASTERS
        found["masters"] = [repeated("masters", n, options.rounds, measure_masters, seconds) for n in masters]
        show_masters(found["masters"])
    if "latency" in parts:
        jobs = JOBS[:2] if options.quick else JOBS
        found["latency"] = [repeated("jobs", n, options.rounds, measure_latency, tries) for n in jobs]
        show_latency(found["latency"])
    if "size" in parts:
        reports = DAY_REPORTS // 24 if options.quick else DAY_REPORTS
        found["size"] = [measure_size(family, reports) for family in ("postgresql", "sqlite")]
        show_size(found["size"])
    finish(found, options.json)


def repeated(what: str, number: int, rounds: int, measure: Any, argument: float) -> dict[str, Any]:
    say(f"{number:,} {what}")
    results = sorted((measure(number, argument) for _ in range(rounds)), key=lambda one: one["p99_s"])
    chosen: dict[str, Any] = {**results[len(results) // 2], "all_p99_s": [one["p99_s"] for one in results]}
    return chosen


if __name__ == "__main__":
    main()
