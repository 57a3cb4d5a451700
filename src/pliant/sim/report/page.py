"""The page of a simulated scenario: measures, rates over time with a mark for each plan, nodes over time, plans with reasons.

Names and reasons come from a user's files and from algorithms; everything is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pliant.core.plurals import counted
from pliant.sim.measures import Measures
from pliant.sim.outcome import JobOutcome
from pliant.sim.report.svg import COLORS, Mark, Series, plot
from pliant.sim.run import ScenarioRun

MAX_PLOTTED_JOBS = 6
MAX_SHOWN_PLANS = 60
MAX_SHOWN_JOBS = 50

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1d2329;background:#fff;max-width:1000px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.15em;margin-top:2em;border-bottom:1px solid #d8dde2}
h3{font-size:1em;margin:1.2em 0 .3em}table{border-collapse:collapse;font-size:13px;width:100%}
.wide{overflow-x:auto}th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid #e6e9ec;vertical-align:top}
th:first-child,td:first-child,td.text,th.text{text-align:left}th{background:#f4f6f8;font-weight:600}
.plot{width:100%;height:auto}.grid{stroke:#e6e9ec}.tick{font-size:11px;fill:#55606a}
.key{display:inline-block;margin-right:1.1em;font-size:13px}.key i{display:inline-block;width:1.4em;height:3px;
vertical-align:middle;margin-right:.35em}p.dim,.dim{color:#55606a}
@media(prefers-color-scheme:dark){body{background:#14181c;color:#dfe4e8}th{background:#20262c}
th,td,h2{border-color:#2c343b}.grid{stroke:#2c343b}.tick,.dim,p.dim{fill:#9aa5ae;color:#9aa5ae}}
"""

COLUMNS = (
    ("policy", ""),
    ("finished", "jobs that succeeded, of all"),
    ("completion", "mean time from arrival to end"),
    ("regret", "mean of completion time against the oracle"),
    ("regret p95", "95th percentile"),
    ("node hours", "sum; against the oracle"),
    ("core hours", "sum"),
    ("to 95 % of best", "median time; jobs that got there"),
    ("OOM", "nodes that ran out of memory"),
    ("changes/h", "plans carried out per hour of a job"),
    ("error", "median relative error of predicted rates"),
    ("coverage", "share of 90 % intervals that held; number of predictions"),
)

SHARING_COLUMNS = (
    ("policy", ""),
    ("finished", "jobs that succeeded, of all"),
    ("sum of completion", "times from arrival to end"),
    ("makespan", "until the last job has ended"),
    ("slowdown", "mean completion time against that of the job alone with the whole quota, at its best"),
    ("slowdown max", "of any job"),
    ("unfairness max", "completion time against that with an equal share of the quota: finish-time fairness"),
    ("waiting max", "from arrival to the first node"),
    ("node hours", "sum"),
    ("most cores", "in use at any moment"),
)


def page(run: ScenarioRun) -> str:
    scenario = run.scenario
    cluster = sum(machine.count for machine in scenario.cluster.machines)
    about = f"{counted(len(run.specs), 'job')} on {counted(cluster, 'machine')}, seed {run.seed}"
    body = [
        f"<h1>{escape(scenario.name)}</h1>",
        f"<p>{escape(scenario.about)}</p>" if scenario.about else "",
        f'<p class="dim">{escape(about)}</p>',
        "<h2>Measures</h2>",
        _measures(run.measures.values()),
        *(["<h2>Sharing the quota</h2>", _sharing(run.measures.values())] if run.scenario.cluster.quota_cpu else ()),
        *(_cluster(run) if len(run.specs) > 1 else ()),
        *_job_sections(run),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(scenario.name)}: simulation</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _measures(found: Iterable[Measures]) -> str:
    return _table(COLUMNS, [measure_row(one) for one in found])


def _sharing(found: Iterable[Measures]) -> str:
    return _table(SHARING_COLUMNS, [sharing_row(one) for one in found])


def _table(columns: Sequence[tuple[str, str]], cells: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th title="{escape(about)}">{escape(name)}</th>' for name, about in columns)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def measure_row(one: Measures) -> list[str]:
    """The cells of ``COLUMNS``."""
    ratio = f" ({one.node_seconds_ratio:.2f} x)" if one.node_seconds_ratio is not None else ""
    reached = f" ({one.reached_best} of {one.jobs})" if one.reached_best is not None else ""
    return [
        one.policy,
        f"{one.finished} of {one.jobs}",
        duration(one.completion_s),
        _percent(one.regret_mean),
        _percent(one.regret_p95),
        f"{one.node_hours:,.1f}{ratio}",
        f"{one.core_hours:,.1f}",
        (duration(one.to_best_s) if one.to_best_s is not None else "-") + reached,
        str(one.ooms),
        f"{one.changes_per_hour:.1f}",
        _percent(one.prediction_error),
        f"{one.coverage:.0%} of {one.predictions}" if one.coverage is not None else "-",
    ]


def sharing_row(one: Measures) -> list[str]:
    """The cells of ``SHARING_COLUMNS``."""
    return [
        one.policy,
        f"{one.finished} of {one.jobs}",
        f"{one.completion_sum_s / 3600:,.1f} h",
        duration(one.makespan_s),
        f"{one.slowdown_mean:.2f} x" if one.slowdown_mean is not None else "-",
        f"{one.slowdown_max:.2f} x" if one.slowdown_max is not None else "-",
        f"{one.unfairness_max:.2f}" if one.unfairness_max is not None else "-",
        duration(one.waiting_max_s),
        f"{one.node_hours:,.1f}",
        f"{one.most_used_cores:,.0f}",
    ]


def _percent(value: float | None) -> str:
    return f"{value:.1%}" if value is not None else "-"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"


def _cluster(run: ScenarioRun) -> list[str]:
    until = max((result.ended for result in run.results.values()), default=1.0)
    series = [
        Series(name, [(point.time, point.cores) for point in result.use], color=number)
        for number, (name, result) in enumerate(run.results.items())
    ]
    return [
        "<h2>The cluster</h2><h3>Cores in use</h3>",
        plot("Cores in use", series, unit="cores", until=until),
        _key(list(run.results)),
        "<h3>Completion by job</h3>",
        _job_table(run),
    ]


def _job_table(run: ScenarioRun) -> str:
    by_job = {name: {job.name: job for job in result.jobs} for name, result in run.results.items()}
    head = "<th>job</th>" + "".join(f"<th>{escape(name)}</th>" for name in by_job)
    rows = []
    for spec in run.specs[:MAX_SHOWN_JOBS]:
        cells = [_ended(jobs.get(spec.name)) for jobs in by_job.values()]
        rows.append(f"<tr><td>{escape(spec.name)}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    more = len(run.specs) - MAX_SHOWN_JOBS
    note = f'<p class="dim">and {counted(more, "more job")}</p>' if more > 0 else ""
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>{note}'


def _ended(job: JobOutcome | None) -> str:
    if job is None:
        return "not started"
    if job.failure:
        return "failed"
    return duration(job.completion_s) if job.completion_s is not None else "not finished"


def _job_sections(run: ScenarioRun) -> Iterable[str]:
    for spec in run.specs[:MAX_PLOTTED_JOBS]:
        jobs = [
            (number, job)
            for number, result in enumerate(run.results.values())
            for job in result.jobs
            if job.name == spec.name
        ]
        if not jobs:
            continue
        until = max(job.curve[-1].time for _, job in jobs if job.curve) - spec.arrival
        yield f"<h2>{escape(spec.name)}</h2><h3>Records per second</h3>"
        yield plot(
            f"Rate of {spec.name}", _rates(jobs, run.best_rate.get(spec.name), until), unit="records/s", until=until
        )
        yield _key([job.policy for _, job in jobs], [number for number, _ in jobs])
        yield "<h3>Nodes</h3>"
        nodes = [Series(j.policy, [(p.time - j.arrival, p.nodes) for p in j.curve], color=n) for n, j in jobs]
        yield plot(f"Nodes of {spec.name}", nodes, unit="nodes", until=until)
        for _, job in jobs:
            if job.plans:
                yield f"<h3>Plans of {escape(job.policy)}</h3>{_plans(job)}"


def _rates(jobs: Sequence[tuple[int, JobOutcome]], best_rate: float | None, until: float) -> list[Series]:
    found = [
        Series(
            job.policy,
            [(point.time - job.arrival, point.rate) for point in job.curve],
            tuple(Mark(plan.time - job.arrival, f"{plan.algorithm}: {plan.reason}") for plan in job.plans),
            color=number,
        )
        for number, job in jobs
    ]
    if best_rate is not None:
        found.append(Series("best configuration", [(0.0, best_rate), (until, best_rate)], dashed=True, color=6))
    return found


def _key(names: Sequence[str], colors: Sequence[int] | None = None) -> str:
    numbers = colors if colors is not None else range(len(names))
    parts = [
        f'<span class="key"><i style="background:{COLORS[number % len(COLORS)]}"></i>{escape(name)}</span>'
        for number, name in zip(numbers, names, strict=True)
    ]
    return f"<p>{''.join(parts)}</p>"


def _plans(job: JobOutcome) -> str:
    head = '<th>time</th><th class="text">algorithm</th><th class="text">reason</th><th class="text">configuration</th>'
    rows = []
    for plan in job.plans[:MAX_SHOWN_PLANS]:
        prediction = plan.prediction
        predicted = f"{prediction.rate:,.4g} ({prediction.low:,.4g} to {prediction.high:,.4g})" if prediction else "-"
        came = f"{plan.achieved:,.4g}" if plan.achieved is not None else "-"
        texts = (plan.algorithm, plan.reason, str(plan.configuration))
        rows.append(
            f"<tr><td>{duration(plan.time - job.arrival)}</td>"
            + "".join(f'<td class="text">{escape(value)}</td>' for value in texts)
            + f"<td>{predicted}</td><td>{came}</td></tr>"
        )
    more = len(job.plans) - MAX_SHOWN_PLANS
    note = f'<p class="dim">and {counted(more, "more plan")}</p>' if more > 0 else ""
    head += "<th>predicted rate</th><th>achieved</th>"
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>{note}'
