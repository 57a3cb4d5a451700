"""Secrets that users put into a spec are not shown; what is none, is."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.dashboard.documents.spec import HIDDEN, is_secret_name, redact_text, spec_document


@pytest.mark.parametrize(
    "spec",
    [
        {"env": {"HF_TOKEN": "hush"}},
        {"env": {"AWS_SECRET_ACCESS_KEY": "hush"}},
        {"env": {"DB_PASSWORD": "hush"}},
        {"env": {"apiKey": "hush"}},
        {"env": {"WANDB_API_KEY": "hush"}},
        {"env": {"PGPASSWORD": "hush"}},
        {"env": {"HFTOKEN": "hush"}},
        {"env": {"DB_PASS": "hush"}},
        {"env": {"CONFIG": '{"rate": 1, "db_password": "hush", "api_key": "hush"}'}},
        {"command": ["python", "train.py", "--config", "{'password': 'hush'}"]},
        {"roles": {"worker": {"env": [{"name": "MY_TOKEN", "value": "hush"}]}}},
        {"command": ["python", "train.py", "--db-password", "hush"]},
        {"command": ["python", "train.py", "--token=hush"]},
        {"command": ["sh", "-c", "API_TOKEN=hush python train.py"]},
        {"command": "curl -H 'Authorization: Bearer hushhushhush'"},
        {"database": "postgresql://pliant:hush@db/pliant"},
        {"data": "https://bucket.example/x?sig=hush&y=1"},
        {"password": 12345678, "note": "hush is not here"} | {"note": ""},
    ],
)
def test_secrets_are_hidden(spec: dict[str, Any]) -> None:
    document = spec_document(spec)
    assert "hush" not in document["yaml"]
    assert "12345678" not in document["yaml"]
    assert HIDDEN in document["yaml"]
    assert document["redacted"]


@pytest.mark.parametrize(
    "spec",
    [
        {"env": {"OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}, "tls": False},
        {"command": ["python", "train.py", "--epochs", "3", "--author", "ada", "--monkey=1"]},
        {"data": "s3://bucket/train/*.rio", "keys": 3, "epochs": 2},
    ],
)
def test_what_is_no_secret_is_shown(spec: dict[str, Any]) -> None:
    document = spec_document(spec)
    assert HIDDEN not in document["yaml"]
    assert not document["redacted"]


@pytest.mark.parametrize(
    "key",
    ["hf_" + "a" * 30, "ghp_" + "b" * 36, "sk-" + "c" * 40, "AKIA" + "D" * 16, "-----BEGIN PRIVATE KEY-----\nabc"],
)
def test_keys_of_well_known_services_are_hidden_under_any_name(key: str) -> None:
    assert redact_text(f"x {key}") == f"x {HIDDEN}"


@pytest.mark.parametrize("name", ["tokenizer", "keyboard", "monkey", "author", "passes", "bucket", "bypass", "compass"])
def test_words_that_only_begin_so_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("word", ["TOKEN", "--token-", "eyJ-", "a+", '"token":', "?sig", "-", "bearer "])
def test_a_long_text_does_not_hold_up_the_page(word: str) -> None:
    """A search that looks at each part of a word again would take hours, and no other thread would run meanwhile."""
    assert redact_text(word * 20_000)
