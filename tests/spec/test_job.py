"""The job spec: what is accepted, what is told about mistakes, and that its schemas mean what the model means."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.errors import SpecError
from pliant.core.nodes.fault_policy import Backoff, Budget, ExitReason, FaultPolicy, MemoryGrowth
from pliant.core.rendezvous.book import Limits
from pliant.core.resources import Resources
from pliant.core.shards.datasets import FilePart, ShardType
from pliant.platforms.registry import platform_traits
from pliant.spec import ComponentSet, FaultSpec, JobSpec, RoleSpec, json_schema, load_spec, structural_schema
from pliant.spec import text as yaml_text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/job-spec.md").read_text(encoding="utf-8")
EXAMPLES = [
    *re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL),
    (ROOT / "examples/job.yaml").read_text(encoding="utf-8"),
]
WORKER = {"worker": {"command": ["train"]}}
PS = {"ps": {"command": ["serve"]}, **WORKER}

RICH = JobSpec.from_dict(
    {
        "name": "rich",
        "strategy": "allreduce",
        "roles": {
            "worker": {
                "replicas": {"min": 2, "max": 8, "wanted": 4},
                "template": {"metadata": {"labels": {"team": "a"}}, "spec": {"hostNetwork": False}},
                "command": "python -m train 'two words'",
                "env": {"A": 1, "B": True, "C": "on", "D": "1e3", "E": ""},
                "resources": {"cpu": 1.5, "memory": "3Gi", "gpu": 1},
                "min_resources": {"cpu": "500m", "memory": 700},
                "restarts": {"oom": 0, "error": 9},
            },
            "chief": {"critical": False},
        },
        "datasets": [
            {"name": "a", "shard_size": 2, "files": [["f", 3, 9], {"name": "g", "end": 4}], "type": "eval"},
            {"name": "b", "shard_size": 2, "indices": [3, 1, 2], "skip_parked": True},
        ],
        "fault": {
            "killed": {"in_place": False},
            "oom": {"backoff": {"first": 9}},
            "unschedulable": {"shrink_after": 1},
        },
        "rendezvous": {"node_unit": 2},
        "suspend": True,
        "platform": {
            "kubernetes": {
                "image_pull_secrets": ["key"],
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "high_priority_class": "high",
                "high_priority_share": 0.5,
                "journal": {"volume": "claim", "size": "5Gi"},
                "master": {"resources": {"cpu": 1}},
            },
            "kind": "mine",
            "options": {"deep": {"x": [1, "2"]}},
            "ray": {"runtime_env": {"pip": ["x"]}},
        },
        "optimize": {"mode": "manual"},
        "components": {"need_training_service": False},
        "metrics_port": 0,
        "journal": {"sync": "normal"},
    }
)


def worker(**fields: Any) -> RoleSpec:
    return JobSpec.from_dict({"roles": {"worker": {"command": ["x"], **fields}}}).roles["worker"]


def told(value: object) -> list[str]:
    """The lines of problems that a spec gets."""
    with pytest.raises(SpecError) as refused:
        JobSpec.from_dict(value)
    return [line.removeprefix("  - ") for line in refused.value.message.splitlines()[1:]]


def told_of_worker(**fields: Any) -> list[str]:
    return told({"roles": {"worker": {"command": ["x"], **fields}}})


# --- what is accepted ---


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_yaml_of_the_page_and_of_the_examples_is_a_job(text: str) -> None:
    assert load_spec(text).components().nodes


@pytest.mark.parametrize("replicas", [4, "4", "4:4", {"min": 4, "max": 4}])
def test_replicas_may_be_a_number_a_range_or_min_and_max(replicas: object) -> None:
    given = worker(replicas=replicas).replicas
    assert (given.min, given.max) == (4, 4)


@pytest.mark.parametrize(("replicas", "target"), [("2:8", 8), ({"min": 2, "max": 8, "wanted": 3}, 3)])
def test_a_role_starts_with_what_is_wanted_and_that_is_all_it_may_have_by_default(
    replicas: object, target: int
) -> None:
    assert worker(replicas=replicas).replicas.target == target


def test_a_template_of_a_pod_is_kept_as_it_is() -> None:
    template = {"spec": {"volumes": [{"name": "a", "emptyDir": {}}], "hostIPC": None}, "metadata": {"labels": {"n": 1}}}
    assert worker(template=template).template == template


@pytest.mark.parametrize(
    ("platform", "security", "encrypted"),
    [
        ("local", {}, False),
        ("kubernetes", {}, True),
        ("kubernetes", {"tls": False}, False),
        ("local", {"tls": 1}, None),
    ],
)
def test_traffic_is_encrypted_by_default_where_it_leaves_the_machine(
    platform: str, security: dict[str, Any], encrypted: bool | None
) -> None:
    value = {"roles": WORKER, "platform": platform, "security": security}
    if encrypted is None:
        assert told(value) == ["security.tls: got 1; allowed: true or false"]
    else:
        default = platform_traits(platform).encrypts_by_default
        assert JobSpec.from_dict(value).security.uses_tls(default=default) is encrypted


def test_a_range_of_replicas_needs_no_quotes_in_yaml() -> None:
    spec = JobSpec.from_yaml("roles: {worker: {replicas: 2:8, command: x}}")
    assert (spec.roles["worker"].replicas.min, spec.roles["worker"].replicas.max) == (2, 8)


@pytest.mark.parametrize(
    ("memory", "megabytes"),
    [
        (512, 512),
        ("512", 512),
        ("512Mi", 512),
        ("2Gi", 2048),
        ("2GiB", 2048),
        ("1.5Gi", 1536),
        ("1G", 954),
        ("1Ki", 1),
        ("128.974848M", 123),
    ],
)
def test_memory_is_read_with_its_unit(memory: object, megabytes: int) -> None:
    assert worker(resources={"memory": memory}).resources.to_core() == Resources(memory_mb=megabytes)


@pytest.mark.parametrize(("cpu", "cores"), [(2, 2.0), (0.5, 0.5), ("500m", 0.5), ("2", 2.0), ("1.25", 1.25)])
def test_cpu_is_read_in_cores_or_thousandths(cpu: object, cores: float) -> None:
    assert worker(resources={"cpu": cpu}).resources.cpu == cores


def test_a_command_in_one_line_is_split_without_a_shell() -> None:
    assert worker(command="python train.py --name 'a b' $HOME").command == (
        *("python", "train.py", "--name", "a b", "$HOME"),
    )


def test_numbers_in_commands_and_variables_become_texts() -> None:
    role = worker(command=["x", "--epochs", 3], env={"N": 1, "ON": True})
    assert role.command == ("x", "--epochs", "3")
    assert role.env == {"N": "1", "ON": "true"}


def test_parameter_servers_and_chiefs_are_critical_unless_the_spec_says_otherwise() -> None:
    roles = {**PS, "chief": {}, "evaluator": {"critical": True}}
    spec = JobSpec.from_dict({"strategy": "ps-sync", "roles": roles})
    assert {name: role.critical for name, role in spec.roles.items()} == {
        **{"ps": True, "chief": True, "evaluator": True, "worker": False}
    }
    assert JobSpec.from_dict({"roles": {"ps": {"command": ["x"], "critical": False}}}).roles["ps"].critical is False


def test_an_empty_section_is_as_good_as_none() -> None:
    spec = JobSpec.from_yaml("roles: {worker: {command: x, env: , resources: {cpu: }}}\nfault:\nmetrics_port:\n")
    assert spec == JobSpec.from_dict({"roles": {"worker": {"command": ["x"]}}})


def test_a_section_given_in_part_is_the_default_with_these_changes() -> None:
    policy = JobSpec.from_dict(
        {"roles": WORKER, "fault": {"error": {"limit": 7}, "preempted": {"backoff": {"first": 5}}}}
    ).fault_policy()
    assert policy.budgets[ExitReason.ERROR] == Budget(7, Backoff(0.5, 2.0, 30.0), in_place=True)
    assert policy.budgets[ExitReason.PREEMPTED] == Budget(-1, Backoff(5.0, 1.2, 10.0))


def test_short_forms_of_platform_and_optimize_name_the_kind_and_the_mode() -> None:
    spec = JobSpec.from_dict({"roles": WORKER, "platform": "kubernetes", "optimize": "manual"})
    assert (spec.platform.kind, spec.optimize.mode) == ("kubernetes", "manual")


# --- what it becomes ---


def test_the_default_fault_policy_is_that_of_the_core() -> None:
    assert FaultSpec().to_policy() == FaultPolicy()


def test_the_fault_policy_carries_every_field() -> None:
    fault = {
        "memory": {"factor": 2, "add": "1Gi", "ceiling": "8Gi"},
        **{"heartbeat_timeout": 1, "start_timeout": 2, "progress_timeout": 3, "grace": 4},
        "unschedulable": {"backoff": {"first": 5, "factor": 6, "longest": 7}, "shrink_after": 8},
    }
    policy = JobSpec.from_dict({"roles": WORKER, "fault": fault}).fault_policy()
    assert policy == FaultPolicy(
        memory=MemoryGrowth(2.0, 1024, 8192),
        heartbeat_timeout=1.0,
        start_timeout=2.0,
        progress_timeout=3.0,
        unschedulable_backoff=Backoff(5.0, 6.0, 7.0),
        unschedulable_shrink_after=8.0,
        grace=4.0,
    )


def test_a_role_may_have_limits_of_its_own() -> None:
    assert RICH.fault_policy().budgets[ExitReason.ERROR].limit == 3
    assert RICH.fault_policy("worker").budgets[ExitReason.ERROR].limit == 9
    assert RICH.fault_policy("worker").budgets[ExitReason.OOM].limit == 0
    assert RICH.fault_policy("worker").budgets[ExitReason.HANG].limit == 10


def test_datasets_become_those_of_the_core() -> None:
    files, indices = RICH.core_datasets()
    assert files.files == (FilePart("f", 3, 9), FilePart("g", 0, 4))
    assert files.type is ShardType.EVAL
    assert indices.indices == (3, 1, 2)
    assert indices.skip_parked


def test_worlds_are_as_large_as_the_replicas_of_the_workers_and_as_small_as_one_unless_given() -> None:
    assert RICH.rendezvous_limits() == Limits(1, 8, node_unit=2, wait_seconds=30.0)
    assert RICH.replaced(rendezvous={"min": 4, "max": 6}).rendezvous_limits() == Limits(4, 6)


CASES = {
    1: ("none", {"need_pod_manager": False}, ComponentSet(False, True, False, False, False)),
    2: ("none", {"need_task_manager": False}, ComponentSet(True, False, False, False, False)),
    3: ("allreduce", {"need_task_manager": False}, ComponentSet(True, False, True, False, False)),
    4: ("none", {}, ComponentSet(True, True, False, False, True)),
    5: ("allreduce", {"need_training_service": False}, ComponentSet(True, True, True, False, True)),
    6: ("ps-async", {}, ComponentSet(True, True, False, True, True, parameters=True)),
    7: ("allreduce", {}, ComponentSet(True, True, True, True, True)),
}


@pytest.mark.parametrize("case", CASES)
def test_each_of_the_seven_combinations_follows_from_strategy_and_flags(case: int) -> None:
    strategy, flags, expected = CASES[case]
    spec = JobSpec.from_dict({"strategy": strategy, "components": flags, "roles": {} if case == 1 else PS})
    assert spec.components() == expected
    assert spec.components().case == case


def test_fault_tolerance_of_tasks_can_be_turned_off() -> None:
    spec = JobSpec.from_dict({"roles": WORKER, "components": {"task_fault_tolerance": False}})
    assert not spec.components().fault_tolerance


def test_a_changed_copy_is_checked_as_a_whole() -> None:
    assert RICH.replaced(name="other").name == "other"
    with pytest.raises(SpecError, match="name: got 'Not OK'"):
        RICH.replaced(name="Not OK")
    with pytest.raises(SpecError, match=r"roles\.ps: missing"):
        RICH.replaced(strategy="ps-sync")


# --- round trips ---


@pytest.mark.parametrize("spec", [RICH, *map(load_spec, EXAMPLES)])
def test_a_spec_is_the_same_after_writing_and_reading(spec: JobSpec) -> None:
    for text in (spec.to_yaml(), spec.to_yaml(full=True)):
        assert load_spec(text) == spec
    assert load_spec(spec.to_yaml()).to_yaml() == spec.to_yaml()
    assert JobSpec.from_dict(spec.to_json()) == spec


def test_only_what_differs_from_the_defaults_is_written() -> None:
    spec = JobSpec.from_dict({"roles": WORKER, "fault": {"error": {"limit": 3, "in_place": False}, "grace": 10}})
    assert spec.to_yaml() == (
        "roles:\n  worker:\n    command:\n    - train\n    critical: false\nfault:\n  error:\n    in_place: false\n"
    )


@settings(deadline=None)
@given(st.text(), st.floats(min_value=0.001, max_value=1000), st.integers(min_value=0, max_value=1 << 26))
def test_any_text_and_amount_survives_a_round_trip(text: str, cpu: float, memory: int) -> None:
    word = text.replace("\0", "").encode("utf-8", "ignore").decode()
    role = {"command": ["x", word], "env": {"A": word}, "resources": {"cpu": cpu, "memory": memory}}
    spec = JobSpec.from_dict({"roles": {"worker": role}})
    assert load_spec(spec.to_yaml()) == spec
    assert spec.roles["worker"].env == {"A": word}


def test_a_spec_is_loaded_from_a_file_and_errors_name_it(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("roles: {worker: {command: x}}")
    assert load_spec(path) == load_spec(str(path)) == load_spec("roles: {worker: {command: x}}")
    path.write_text("nme: x\n")
    with pytest.raises(SpecError, match=r"job\.yaml: 1 problem in the job spec\n  - nme: .* did you mean name\?"):
        load_spec(path)
    with pytest.raises(SpecError, match=r"missing\.yaml cannot be read: No such file"):
        load_spec("missing.yaml")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not valid UTF-8"):
        load_spec(path)


# --- what is told about mistakes ---


def test_several_problems_are_listed_together_each_with_field_value_and_what_is_allowed() -> None:
    lines = told(
        {
            "strategy": "allredcue",
            "roles": {"worker": {"replicas": {"min": -1, "max": 2}, "comand": "x"}, "Ps": {}},
            "datasets": [{"name": "a", "shard_size": 0, "size": 1}],
            "fault": {"heartbeat_timeout": 0, "error": {"limit": "many"}},
            "metrics_port": 70000,
            "audit": "maybe",
        }
    )
    assert lines == [
        "strategy: got 'allredcue'; allowed: one of none, local, allreduce, ps-sync, ps-async; did you mean allreduce?",
        "roles.worker.replicas.min: got -1; allowed: an integer from 0 to 100000",
        "roles.worker.comand: unknown field; did you mean command?",
        "roles.Ps: got 'Ps'; allowed: a role such as worker or ps: lower-case letters, digits and -,"
        " at most 20 characters",
        "datasets.0.shard_size: got 0; allowed: an integer of at least 1",
        "fault.error.limit: got 'many'; allowed: an integer of at least -1",
        "fault.heartbeat_timeout: got 0; allowed: a number of more than 0",
        "metrics_port: got 70000; allowed: an integer from 0 to 65535",
        "audit: got 'maybe'; allowed: true or false",
    ]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"replicas": "5:2"}, "roles.worker.replicas.min: got 5; allowed: at most max, which is 2"),
        ({"replicas": 0}, "roles.worker.replicas.max: got 0; allowed: an integer from 1 to 100000"),
        ({"replicas": "a:b"}, "roles.worker.replicas: got 'a:b'; allowed: a number such as 4, a range"),
        ({"replicas": True}, "roles.worker.replicas: got True; allowed: a mapping with min, max"),
        (
            {"replicas": {"min": 1, "max": 3, "wanted": 4}},
            "roles.worker.replicas.wanted: got 4; allowed: from min to max, 1 to 3",
        ),
        ({"replicas": {"min": 1}}, "roles.worker.replicas.max: missing; allowed: an integer from 1"),
        ({"resources": {"memory": "2 lots"}}, "roles.worker.resources.memory: got '2 lots'; allowed: an amount"),
        ({"resources": {"memory": 2**31}}, "roles.worker.resources.memory: got 2147483648; allowed: an amount"),
        ({"resources": {"cpu": -1}}, "roles.worker.resources.cpu: got -1; allowed: a number of cores"),
        ({"resources": {"cpu": float("nan")}}, "roles.worker.resources.cpu: got nan; allowed: a number of cores"),
        ({"min_resources": {"cpu": 1}}, "roles.worker.min_resources.cpu: got 1.0; allowed: at most resources.cpu"),
        ({"command": "a && b"}, "roles.worker.command: got 'a && b'; allowed: a program and its arguments"),
        ({"command": "a 'b"}, 'roles.worker.command: got "a \'b"; allowed: a command whose quotes match'),
        ({"command": ""}, "roles.worker.command: got ''; allowed: a program and its arguments"),
        ({"command": {"a": 1}}, "roles.worker.command: got {'a': 1}; allowed: a list"),
        ({"command": ["a\0b"]}, "roles.worker.command.0: got 'a\\x00b'; allowed: a string without the NUL"),
        ({"env": {"A": None}}, "roles.worker.env.A: no value; allowed: a string"),
        ({"env": {"A=B": ""}}, "roles.worker.env.A=B: got 'A=B'; allowed: a name of an environment variable"),
        ({"env": {1: ""}}, "roles.worker.env.1: got 1; allowed: a string as the name"),
        ({"restarts": {"eror": 1}}, "roles.worker.restarts.eror: unknown field; did you mean error?"),
        ({"zzz": 1}, "roles.worker.zzz: unknown field; known: replicas, command, env"),
    ],
)
def test_a_wrong_field_of_a_role_is_told(fields: dict[str, Any], line: str) -> None:
    lines = told_of_worker(**fields)
    assert len(lines) == 1
    assert lines[0].startswith(line)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, ["roles: at least one role needs a command, such as worker"]),
        ({"roles": {"worker": {}}}, ["roles: at least one role needs a command, such as worker"]),
        ({"roles": WORKER, "strategy": "ps-sync"}, ["roles.ps: missing; strategy ps-sync needs this role"]),
        (
            {"roles": {"ps": {"command": "x"}}, "strategy": "allreduce"},
            ["roles.worker: missing; strategy allreduce needs this role"],
        ),
        (
            {"roles": {"worker": {"command": "x", "replicas": 2}}, "strategy": "local"},
            [
                "roles.worker.replicas.max: got 2; allowed: 1, since strategy local trains in one process",
            ],
        ),
        (
            {"roles": {**WORKER, "master": {}}},
            ["roles.master: got 'master'; allowed: any role but master, which every job already has"],
        ),
        (
            {"roles": WORKER, "rendezvous": {"min": 4, "max": 2}},
            ["rendezvous.min: got 4; allowed: at most the largest world, which is 2"],
        ),
        (
            {"roles": WORKER, "strategy": "allreduce", "rendezvous": {"min": 4}},
            ["rendezvous.min: got 4; allowed: at most roles.worker.replicas.max, which is 1"],
        ),
        (
            {"roles": WORKER, "strategy": "allreduce", "rendezvous": {"node_unit": 2}},
            ["rendezvous.node_unit: got 2; allowed: a number with a multiple from 1 to 1"],
        ),
        (
            {"roles": WORKER, "datasets": [{"name": "a", "shard_size": 1, "size": 1}] * 2},
            ["datasets.1.name: got 'a'; allowed: a name that no other dataset has"],
        ),
        (
            {"roles": WORKER, "datasets": [{"name": "a", "shard_size": 1, "size": 1, "stream": True}]},
            ["datasets.0: dataset 'a': give one of size, files, indices, or stream; got 2 of them"],
        ),
        (
            {
                "roles": WORKER,
                "components": {"need_task_manager": False},
                "datasets": [{"name": "a", "shard_size": 1, "size": 1}],
            },
            ["datasets: got ['a']; allowed: none, since components.need_task_manager is false"],
        ),
        (
            {"components": {"need_pod_manager": False, "need_task_manager": False}},
            ["components.need_task_manager: got False; allowed: true, since nothing would run without pods and tasks"],
        ),
        (
            {"strategy": "allreduce", "components": {"need_pod_manager": False, "need_training_service": True}},
            [
                "strategy: got 'allreduce'; allowed: none, since components.need_pod_manager is false",
                "components.need_training_service: got True; allowed: false, unless need_pod_manager and"
                " need_task_manager are true",
            ],
        ),
        (
            {"roles": WORKER, "components": {"need_task_manager": False, "task_fault_tolerance": True}},
            ["components.task_fault_tolerance: got True; allowed: false, since need_task_manager is false"],
        ),
    ],
)
def test_fields_that_contradict_each_other_are_told(value: object, expected: list[str]) -> None:
    assert told(value) == expected


def test_a_job_that_shares_a_quota_names_a_brain() -> None:
    shared = JobSpec.from_dict({"roles": WORKER, "optimize": {"mode": "cluster", "quota": "team", "priority": 3}})
    assert shared.optimize.uses_brain
    assert shared.optimize.is_automatic
    reporting = JobSpec.from_dict({"roles": WORKER, "optimize": {"brain": "brain:50001", "quota": "team"}})
    assert reporting.optimize.uses_brain
    assert not reporting.optimize.is_automatic
    assert told({"roles": WORKER, "optimize": {"mode": "single-job", "quota": "team"}}) == [
        "optimize.quota: got 'team'; allowed: only with a Brain: mode: cluster, or its address"
    ]


@pytest.mark.parametrize("address", ["brain", "http://brain:1", "brain:x", "unix:relative", "a b:1"])
def test_an_address_that_no_brain_has_is_refused(address: str) -> None:
    assert told({"roles": WORKER, "optimize": {"mode": "cluster", "brain": address}})


def test_a_journal_in_the_database_needs_a_brain() -> None:
    assert told({"roles": WORKER, "journal": {"store": "database"}}) == [
        "journal.store: got 'database'; allowed: file, since no Brain is named (optimize.brain, or mode: cluster)"
    ]


@pytest.mark.parametrize("name", ["Digits", "-a", "a_b", "a-", "9a", "x" * 53, "a\n"])
def test_a_name_that_is_no_dns_label_is_refused(name: str) -> None:
    assert told({"name": name, "roles": WORKER})[0].startswith(f"name: got {name!r}; allowed: a letter, then")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b: c\n", r"line 1, column 5: mapping values are not allowed here"),
        ("roles:\n  worker: [1, 2\n", r"line 3, column 1: while parsing a flow sequence"),
        ("name: a\nname: b\n", r"line 2, column 1: 'name' is set twice"),
        ("name: a\nx: \x01\n", r"line 2, column 4: special characters are not allowed"),
        ("name: !!python/object:os.system x\n", r"line 1, column 7: could not determine a constructor"),
        ("a: 1\n---\nb: 2\n", r"line 2, column 1: expected a single document"),
        ("{[1]: 2}\n", r"line 1, column 2: .*unhashable key"),
        ("x: !!int abc\n", r"not valid YAML"),
        pytest.param("[" * 3000 + "\n", r"nested too deeply", id="nested"),
        ("a: &a [*a]\n", r"expands to more than \d+ values"),
        ("", r"the spec is empty; allowed: a mapping with name, strategy"),
        ("- a\n", r"the spec is a list; allowed: a mapping"),
    ],
)
def test_a_text_that_is_no_yaml_mapping_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        JobSpec.from_yaml(text)


def test_aliases_that_stand_for_billions_of_values_are_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    with pytest.raises(SpecError, match="expands to more than"):
        JobSpec.from_yaml("\n".join(lines))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "\n".join(["a0: &a0 {k: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 30))]),
            r"line \d+, column \d+: it expands to more than \d+ values",
        ),
        ("x: !!int '" + "1:" * 500_000 + "1'", r"line 1, column 4: a number has too many digits"),
        ("x: !!float '" + "1:" * 500_000 + "1'", r"line 1, column 4: a number has too many digits"),
        ("x: !!timestamp abc", r"line 1, column 4: could not determine a constructor"),
        ("x: !!set {a, b}", r"line 1, column 4: could not determine a constructor"),
        ("x: !!bool maybe", r"not valid YAML"),
        ("&a {*a: 1}", r"expands to more than|not valid YAML"),
        ("a: &a {<<: *a}", r"line 1, column \d+: it expands to more than"),
        ("x: " + "y" * 9_000_000, r"more than [\d,]+ bytes"),
    ],
    ids=["merge keys", "int", "float", "timestamp", "set", "bool", "own key", "own merge", "length"],
)
def test_a_short_text_cannot_stand_for_much_work(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        JobSpec.from_yaml(text)


def test_merge_keys_and_aliases_work() -> None:
    text = "base: &base {cpu: 1, memory: 2Gi}\nother: {<<: *base, cpu: 2}\nthird: {<<: [*base, {gpu: 1}]}\n"
    assert yaml_text.read(text, "text") == {
        "base": {"cpu": 1, "memory": "2Gi"},
        "other": {"cpu": 2, "memory": "2Gi"},
        "third": {"cpu": 1, "memory": "2Gi", "gpu": 1},
    }


def test_a_spec_may_come_from_a_pipe_but_not_without_end(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"name: piped\nroles: {worker: {command: [python, train.py]}}\n")
    os.close(write_end)
    assert load_spec(Path(f"/dev/fd/{read_end}")).name == "piped"
    os.close(read_end)
    with pytest.raises(SpecError, match=r"/dev/zero is not a job spec: it has more than"):
        load_spec(Path("/dev/zero"))


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_spec_or_a_spec_error(text: str) -> None:
    with pytest.raises(SpecError):
        JobSpec.from_yaml(text)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*structural_schema()["properties"], "other"]), PLAIN))
def test_any_values_of_known_fields_are_a_spec_or_a_spec_error(value: dict[str, Any]) -> None:
    with contextlib.suppress(SpecError):
        JobSpec.from_dict({"roles": WORKER, **value})


# --- the schemas ---


def nodes_of(schema: object) -> list[dict[str, Any]]:
    """Every schema inside a structural one, itself included."""
    assert isinstance(schema, dict)
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return [schema, *(node for part in inner if part is not None for node in nodes_of(part))]


KNOWN_TO_KUBERNETES = {
    *("type", "description", "default", "properties", "required", "items", "additionalProperties", "enum", "pattern"),
    *("minimum", "exclusiveMinimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
}


def test_the_structural_schema_has_one_type_for_each_value_and_nothing_kubernetes_does_not_know() -> None:
    for node in nodes_of(structural_schema()):
        assert set(node) <= KNOWN_TO_KUBERNETES
        any_number_or_string = "type" not in node and node.get("x-kubernetes-preserve-unknown-fields", False)
        assert ("type" in node) != (node.get("x-kubernetes-int-or-string", False) or any_number_or_string)
        assert not {"properties", "additionalProperties"} <= set(node)
        assert node.get("default", "") is not None
        assert set(node.get("required", [])) <= set(node.get("properties", {}))
        if node.get("type") == "object":
            assert {"properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields"} & set(node)


def mismatches(schema: dict[str, Any], value: Any, path: str = "") -> list[str]:
    """Where a value does not match a structural schema."""
    types: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    expected = types.get(
        schema.get("type", ""), {"object": dict, "array": list}.get(schema.get("type", ""), (int, float, str))
    )
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        return [f"{path}: {value!r} is no {schema.get('type', 'integer or string')}"]
    if isinstance(value, dict):
        fields, others = schema.get("properties"), schema.get("additionalProperties")
        if fields is None and others is None:
            return []
        missing = [f"{path}.{key}: missing" for key in schema.get("required", []) if key not in value]
        unknown = [f"{path}.{key}: unknown" for key in value if fields is not None and key not in fields]
        known = [(key, (fields or {}).get(key) or others or {}) for key in value if others or key in (fields or {})]
        return [*missing, *unknown, *(m for key, s in known for m in mismatches(s, value[key], f"{path}.{key}"))]
    if isinstance(value, list):
        return [m for at, item in enumerate(value) for m in mismatches(schema["items"], item, f"{path}[{at}]")]
    wrong = [
        "enum" in schema and value not in schema["enum"],
        isinstance(value, str) and not re.search(schema.get("pattern", ""), value),
        isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 30),
        not isinstance(value, str) and not schema.get("minimum", value) <= value <= schema.get("maximum", value),
        schema.get("exclusiveMinimum") and value == schema["minimum"],
    ]
    return [f"{path}: {value!r} does not match {schema}"] if any(wrong) else []


def filled(schema: dict[str, Any], value: Any) -> Any:
    """What the API server makes of a value: defaults filled in, from the outside to the inside."""
    if isinstance(value, list):
        return [filled(schema["items"], item) for item in value]
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    fields = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    whole = {key: node["default"] for key, node in fields.items() if "default" in node} | value
    return {key: filled(fields.get(key, others), item) for key, item in whole.items()}


@pytest.mark.parametrize("spec", [RICH, *map(load_spec, EXAMPLES)])
def test_what_a_spec_writes_matches_the_structural_schema(spec: JobSpec) -> None:
    assert mismatches(structural_schema(), spec.to_json()) == []
    assert mismatches(structural_schema(), spec.differences()) == []


@pytest.mark.parametrize("spec", [RICH, *map(load_spec, EXAMPLES)])
def test_defaults_filled_in_by_kubernetes_mean_the_same_as_those_of_the_model(spec: JobSpec) -> None:
    assert JobSpec.from_dict(filled(structural_schema(), spec.differences())) == spec


def test_the_structural_schema_refuses_what_is_wrong() -> None:
    wrong = RICH.to_json() | {"strategy": "magic", "metrics_port": 70000, "audit": "x"}
    assert len(mismatches(structural_schema(), wrong)) == 3


def test_the_json_schema_defines_what_it_refers_to_and_keeps_the_short_forms() -> None:
    schema = json_schema()
    references = set(re.findall(r"'#/\$defs/(\w+)'", repr(schema)))
    assert references == set(schema["$defs"])
    role = schema["$defs"]["RoleSpec"]["properties"]
    assert [form.get("type") for form in role["replicas"]["anyOf"]] == [None, "integer", "string"]
    assert [form.get("type") for form in role["command"]["anyOf"]] == ["array", "string"]
    assert schema["additionalProperties"] is False


def test_the_page_describes_every_field() -> None:
    names = {name for node in nodes_of(structural_schema()) for name in node.get("properties", {})}
    assert {name for name in names if not re.search(rf"`[\w.\[\]]*\b{name}`", PAGE)} == set()


def test_every_field_has_a_description() -> None:
    fields = [field for node in nodes_of(structural_schema()) for field in node.get("properties", {}).items()]
    assert [name for name, node in fields if not node.get("description")] == []
