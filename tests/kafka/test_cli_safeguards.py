"""The lock and the record of `apply`, as the command line has them; on real Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli.project import Project, manifest

ON = {"KAFKAFORM_LOCK": "true", "KAFKAFORM_AUDIT": "true"}


@pytest.fixture
def project(project: Project) -> Project:
    project.write("topics/a.yaml", manifest(f"{project.prefix}a", {"partitions": 3, "replicationFactor": 1}))
    return project


def test_what_an_apply_did_can_be_read_back(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    project.run("apply", "--auto-approve", "--audit-file", str(file), env=ON).needs(0)
    told = project.run("history", f"Topic/{project.prefix}a", "--format", "json").needs(0).json
    assert project.prefix in json.dumps(told)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["record"] for line in lines} == {"intent", "result"}
    before = len(lines)
    project.run("apply", "--auto-approve", "--audit-file", str(file), env=ON).needs(0)
    assert len(file.read_text().splitlines()) == before  # nothing done, nothing written


def test_without_a_record_nothing_is_written(project: Project) -> None:
    project.run("apply", "--auto-approve", "--no-audit", env=ON).needs(0)
    assert project.prefix not in project.run("history", f"{project.prefix}*").both


def test_a_record_that_cannot_be_written_stops_the_apply(project: Project, tmp_path: Path) -> None:
    nowhere = tmp_path / "no-such-folder" / "record.jsonl"
    call = project.run("apply", "--auto-approve", "--audit-file", str(nowhere), env=ON).needs(1)
    assert "nothing was applied" in call.err
    assert project.live() == {}
