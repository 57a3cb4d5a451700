"""Everything of one job that the Brain knows: ``pliant brain show``."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pliant.brain.inspection import JobDetails
from pliant.brain.store.quotas import StoredGrant
from pliant.cli.render.brain.jobs import nodes_text
from pliant.cli.render.brain.parts import ago, moment, plain_table, rate
from pliant.cli.render.brain.plans import plan_table
from pliant.cli.render.job_list import age
from pliant.core.plurals import counted
from pliant.core.resources import Resources


def details_view(found: JobDetails, now: float) -> RenderableType:
    parts: list[RenderableType] = [_head(found), _facts(_described(found, now))]
    for title, table, is_there in (
        ("nodes", _nodes(found, now), found.nodes),
        ("periods measured", _periods(found), found.periods),
        ("optimize events", _events(found), found.events),
        ("plans", plan_table(found.plans, with_job=False), found.plans),
        ("runs of algorithms that failed", _runs(found), found.failed_runs),
    ):
        parts += [Text(), Text(title if is_there else f"{title}: none", style="bold")]
        if is_there:
            parts.append(Padding(table, (0, 0, 0, 2), expand=False))
    return Group(*parts)


def _head(found: JobDetails) -> Text:
    head = Text().append(str(found.job.identity), style="bold")
    return head.append(f"  {found.job.phase}", style="green" if found.job.is_running else "default")


def _described(found: JobDetails, now: float) -> list[tuple[str, str]]:
    job, described, sample = found.job, found.job.description, found.job.sample
    mark = described.fingerprint
    lost = [
        f"{counted(job.reports_lost, 'report')} lost" if job.reports_lost else "",
        f"{counted(job.samples_lost, 'sample')} dropped by the master" if job.samples_lost else "",
    ]
    return [
        (
            "uid",
            job.identity.uid + (f" ({counted(found.earlier, 'earlier job')} of this name)" if found.earlier else ""),
        ),
        ("owner", described.owner),
        (
            "quota",
            f"{described.quota or 'none'}, priority {described.priority}" + _preemptible(described.is_preemptible),
        ),
        ("planned by", f"{described.mode}: {', '.join(described.algorithms) or 'the default chain of algorithms'}"),
        ("platform", described.platform),
        ("program", f"{mark.program} ({mark.strategy}, {counted(mark.records, 'record')})"),
        ("started", f"{moment(job.started_at)}" + (f", ended {moment(job.ended_at)}" if job.ended_at else "")),
        ("progress", f"{counted(sample.records, 'record')}, step {sample.step:,}, {sample.rate:,.1f} records/s"),
        ("nodes", nodes_text(sample) if job.is_running else ""),
        ("granted", _granted(found.grants[0], job.granted) if found.grants else ""),
        ("heard", ", ".join([ago(job.last_heard_at, now), f"session {job.session}", *filter(None, lost)])),
    ]


def _preemptible(is_preemptible: bool) -> str:
    return ", preemptible" if is_preemptible else ""


def _granted(stored: StoredGrant, kept_to: int) -> str:
    grant = stored.grant
    limit = "no limit" if grant.is_unlimited else str(grant.limit) if grant.limit is not None else "nothing"
    waits = "" if kept_to >= grant.number else "; the job has not confirmed it yet"
    return f"{limit}: {grant.reason}{waits}".replace(": ;", ";")


def _nodes(found: JobDetails, now: float) -> Table:
    table = plain_table("NODE", "STATE", "RESOURCES", "HOST", "AGE", "WHY")
    for node in found.nodes:
        ended = node.ended_at or now
        table.add_row(
            Text(node.name),
            Text(node.state),
            Text(_resources(node.cpu, node.memory_mb, node.gpu)),
            Text(node.host),
            age(ended - node.created_at) if node.created_at else "",
            Text(node.exit_reason),
        )
    return table


def _resources(cpu: float, memory_mb: int, gpu: int) -> str:
    return str(Resources(cpu, memory_mb, gpu)) if cpu or memory_mb or gpu else "no limit"


def _periods(found: JobDetails) -> Table:
    table = plain_table("BEGAN", "FOR", "CONFIGURATION", "RECORDS/S", right=("FOR", "RECORDS/S"))
    for each in found.periods:
        period = each.period
        length, speed = age(period.ended - period.began), f"{rate(period.rate)} ± {rate(period.error)}"
        table.add_row(moment(period.began), length, Text(str(period.configuration)), speed)
    return table


def _events(found: JobDetails) -> Table:
    table = plain_table("RAISED", "EVENT", "REASON", "OUTCOME")
    for event in found.events:
        outcome = event.outcome or ("ended" if event.ended_at else "being worked on")
        table.add_row(moment(event.raised_at), Text(event.kind), Text(event.reason), Text(outcome))
    return table


def _runs(found: JobDetails) -> Table:
    table = plain_table("BEGAN", "ALGORITHM", "RESULT", "TOOK", "DETAIL", right=("TOOK",))
    for run in found.failed_runs:
        table.add_row(
            moment(run.began_at), Text(run.algorithm), Text(run.outcome), f"{run.took_s:.2g} s", Text(run.detail)
        )
    return table


def _facts(rows: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, text in rows:
        if text:
            table.add_row(name, Text(text))
    return Padding(table, (0, 0, 0, 2), expand=False)
