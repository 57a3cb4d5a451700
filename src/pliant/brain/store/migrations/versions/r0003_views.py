"""Views for people: jobs, plans with what they predicted and reached, use of nodes, machines and quotas."""

from __future__ import annotations

from alembic import op

from pliant.brain.store.migrations.steps import replace_view

revision = "0003"
down_revision = "0002"

_NOW = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "extract(epoch FROM now())",
    "mysql": "unix_timestamp()",
}

V_JOBS = """
SELECT j.namespace, j.name, j.owner, j.quota, j.priority, j.mode, j.platform, j.phase, j.strategy, j.records, j.step, j.rate,
       j.running, j.waiting, j.reports_lost, j.started_at, j.ended_at, j.last_heard_at,
       (SELECT count(*) FROM plans p WHERE p.job_id = j.id) AS plans, j.uid, j.id
FROM jobs j
"""

V_PLANS = """
SELECT j.namespace, j.name AS job, p.made_at, p.algorithm, p.reason, p.outcome, p.before_rate, p.predicted_rate,
       p.predicted_low, p.predicted_high, p.achieved_rate,
       CASE WHEN p.predicted_rate > 0 AND p.achieved_rate IS NOT NULL
            THEN (p.achieved_rate - p.predicted_rate) / p.predicted_rate END AS relative_error,
       CASE WHEN p.achieved_rate IS NULL OR p.predicted_rate IS NULL THEN NULL
            WHEN p.achieved_rate BETWEEN p.predicted_low AND p.predicted_high THEN 1 ELSE 0 END AS is_within_interval,
       p.judgement, p.offer, p.plan, p.event
FROM plans p JOIN jobs j ON j.id = p.job_id
"""

V_NODE_USAGE = """
SELECT j.namespace, j.name AS job, n.name AS node, n.role, n.state, n.host, n.cpu AS cpu_limit, n.memory_mb AS memory_limit_mb,
       count(*) AS samples, avg(s.cpu) AS cpu, max(s.cpu) AS cpu_peak, avg(s.throttled) AS throttled,
       avg(s.memory_mb) AS memory_mb, max(s.memory_mb) AS memory_peak_mb, max(s.time) AS sampled_at
FROM node_samples s JOIN nodes n ON n.id = s.node_id JOIN jobs j ON j.id = n.job_id
WHERE s.resolution = 0 AND s.time > {now} - 3600
GROUP BY j.namespace, j.name, n.name, n.role, n.state, n.host, n.cpu, n.memory_mb
"""

V_MACHINES = """
SELECT c.name AS cluster, m.name AS machine, m.is_ready, m.cpu, m.free_cpu, m.used_cpu, m.memory_mb, m.free_memory_mb,
       m.used_memory_mb, m.gpu, m.free_gpu,
       (SELECT count(*) FROM observed_nodes o WHERE o.cluster_id = m.cluster_id AND o.machine = m.name) AS nodes, c.observed_at
FROM machines m JOIN clusters c ON c.id = m.cluster_id
"""

# Nodes of a job count as its master reports them; those of a job that nobody plans for, as its cluster shows them.
_USE = """
SELECT j.quota AS quota, j.id AS job_id, CASE WHEN n.cpu > 0 THEN n.cpu ELSE 1 END AS cpu, n.memory_mb AS memory_mb, n.gpu AS gpu
FROM jobs j JOIN nodes n ON n.job_id = j.id
WHERE j.ended_at = 0 AND n.ended_at = 0 AND j.mode <> 'manual'
UNION ALL
SELECT j.quota, j.id, CASE WHEN o.cpu > 0 THEN o.cpu ELSE 1 END, o.memory_mb, o.gpu
FROM jobs j JOIN observed_nodes o ON o.namespace = j.namespace AND o.job = j.name
WHERE j.ended_at = 0 AND j.mode = 'manual' AND o.phase IN ('Pending', 'Running')
"""

V_QUOTA_USE = f"""
SELECT q.name AS quota, q.cpu AS cpu_limit, coalesce(sum(u.cpu), 0) AS cpu, q.memory_mb AS memory_limit_mb,
       coalesce(sum(u.memory_mb), 0) AS memory_mb, q.gpu AS gpu_limit, coalesce(sum(u.gpu), 0) AS gpu,
       q.nodes AS node_limit, count(u.job_id) AS nodes, count(DISTINCT u.job_id) AS jobs
FROM quotas q LEFT JOIN ({_USE}) u ON u.quota = q.name
GROUP BY q.name, q.cpu, q.memory_mb, q.gpu, q.nodes
"""


def upgrade() -> None:
    connection = op.get_bind()
    now = _NOW[connection.dialect.name]
    views = {
        "v_jobs": V_JOBS,
        "v_plans": V_PLANS,
        "v_node_usage": V_NODE_USAGE.format(now=now),
        "v_machines": V_MACHINES,
        "v_quota_use": V_QUOTA_USE,
    }
    for name, query in views.items():
        replace_view(connection, name, query)
