"""`kafkaform history`, after applies that kept a record."""

from __future__ import annotations

import pytest

from tests.support.cli.project import Project, run_in_process

pytestmark = pytest.mark.usefixtures("connected")


KEPT = {"KAFKAFORM_AUDIT": "true"}


def test_history_is_filtered_by_name_id_age_and_limit(project: Project) -> None:
    names = [project.topic(name) for name in ("orders", "prices")]
    project.run("apply", "topics", "--auto-approve", env=KEPT).needs(0)

    def list_changes(*arguments: object) -> list[str]:
        changes = project.run("history", *arguments, "--format", "json").needs(0).json["changes"]
        return [change["name"] for change in changes if change["name"] in names]

    assert sorted(list_changes()) == sorted(names)
    assert list_changes(f"Topic/{names[0]}") == [names[0]]
    assert list_changes(names[0]) == [names[0]]
    assert sorted(list_changes(f"Topic/{project.prefix}*")) == sorted(names)
    assert list_changes(f"ConsumerGroup/{names[0]}") == []
    (change,) = project.run("history", names[0], "--format", "json").json["changes"]
    assert list_changes(change["id"]) == [names[0]]
    assert sorted(list_changes(change["run"])) == sorted(names)
    assert len(list_changes(f"{project.prefix}*", "--limit", "1")) == 1
    assert list_changes(names[0], "--since", "1h") == [names[0]]
    assert list_changes(names[0], "--since", "0s") == []
    limited = project.run("history", f"{project.prefix}*", "--limit", "1").needs(0).out
    assert "--limit" in limited


def test_history_of_file_needs_no_cluster(project: Project) -> None:
    project.topic("orders")
    audit = {"topic": False, "file": "audit.jsonl"}
    client = {"bootstrap.servers": project.servers}
    project.config(clusters={"dev": {"client": client, "lock": False, "audit": audit}})
    project.run("apply", "--auto-approve", "--audit").needs(0)
    (change,) = run_in_process(
        "history", "--file", "audit.jsonl", "--format", "json", cwd=project.folder
    ).json["changes"]
    assert (change["name"], change["result"]) == (f"{project.prefix}orders", "applied")
    with (project.folder / "audit.jsonl").open("a") as file:
        file.write('garbage \x1b[2J\n{"format_version": 99}\n')
    call = run_in_process("history", "--file", "audit.jsonl", cwd=project.folder).needs(0)
    assert "Topic/" in call.out
    damaged, later = call.err.splitlines()
    assert damaged.startswith("warning: audit.jsonl: skipped record 3: ")
    assert later.startswith("warning: audit.jsonl: skipped record 4: ")
    assert "\x1b" not in call.both


def test_missing_record_is_named(project: Project) -> None:
    clusters = {"dev": {"client": {"bootstrap.servers": project.servers}, "audit": {"topic": False}}}
    project.config(clusters=clusters)
    assert "not recorded" in project.run("history").needs(1).err
    missing = run_in_process("history", "--file", "none.jsonl", cwd=project.folder).needs(1)
    assert "none.jsonl: " in missing.err
