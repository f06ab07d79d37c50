"""`kafkaform drift`, on real brokers that somebody changes by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import NewPartitions
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from kafkaform.cluster.transport import connection
from kafkaform.core.schema_files import load_schema
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli_helpers import Project, Terminal, plain
from tests.support.group_clients import commit
from tests.support.kafka_fixtures import TIMEOUT_S, Account, admin_client, eventually

MONTH = "2592000000"
RECORDED = {"KAFKAFORM_AUDIT": "true"}

ORDERS = """\
# Orders, as they come in.
apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: {prefix}orders   # the name
spec:
  partitions: 3
  replicationFactor: 1
  keyed: false
  retention: 7d   # a week
  config: {{cleanup.policy: delete}}
"""


@pytest.fixture
def project(project: Project) -> Project:
    project.config()
    return project


@pytest.fixture
def drifted(project: Project) -> Project:
    """A topic of which two configs were changed by hand, one of them undeclared."""
    project.write("topics/orders.yaml", ORDERS.format(prefix=project.prefix))
    project.apply().needs(0)
    project.run("drift", "--unmanaged", "ignore").needs(0)
    project.set_config("orders", "retention.ms", MONTH)
    project.set_config("orders", "segment.ms", "3600000")
    return project


def topics(project: Project, *arguments: object) -> Any:
    """Drift of this project's topics alone, as JSON."""
    call = project.run("drift", "--unmanaged", "ignore", "--format", "json", *arguments)
    document = json.loads(call.out)
    Draft202012Validator(load_schema("drift")).validate(document)
    return document


def add_partitions(project: Project, name: str, count: int) -> None:
    admin = admin_client(project.servers)
    full = project.prefix + name
    for future in admin.create_partitions([NewPartitions(full, count)]).values():
        future.result(TIMEOUT_S)
    eventually(project.live, lambda live: live[name]["partitions"] == count)


def delete(project: Project, name: str) -> None:
    admin = admin_client(project.servers)
    for future in admin.delete_topics([project.prefix + name]).values():
        future.result(TIMEOUT_S)
    eventually(project.live, lambda live: name not in live)


# --- what is told ----------------------------------------------------------------------------------


def test_drift_is_told_with_both_ways_out(drifted: Project) -> None:
    call = drifted.run("drift", "--unmanaged", "ignore").needs(2)
    name = f"{drifted.prefix}orders"
    assert f"Topic/{name}" in call.out
    assert "retention.ms  manifest  7d (604800000)   topics/orders.yaml:10" in call.out
    assert "live      30d (2592000000)" in call.out
    assert "segment.ms    manifest  (not declared)" in call.out
    assert f"kafkaform apply --target Topic/{name} --allow Topic/{name}:retention-cut" in call.out
    assert f"kafkaform drift --adopt --target Topic/{name}" in call.out
    assert "topics/orders.yaml:10:  retention: 30d" in call.out
    assert "topics/orders.yaml:11, in spec.config:  segment.ms: 1h" in call.out
    assert call.out.endswith("Drift: 1 resource differs in 2 fields; 0 as declared.\n")


def test_the_command_that_restores_does(drifted: Project) -> None:
    command = topics(drifted)["resources"][0]["restore"]["command"]
    program, *words = command.split()
    assert program == "kafkaform"
    drifted.run(*words, "--auto-approve").needs(0)
    assert drifted.live()["orders"]["retention.ms"] == "604800000"
    document = topics(drifted)
    assert [field["path"] for field in document["resources"][0]["fields"]] == ["config.segment.ms"]
    # And what nothing declares goes by the line that the report shows.
    (line,) = document["resources"][0]["restore"]["lines"]
    assert (line["yaml"], line["keys"][:-1]) == ("segment.ms: null", ["spec", "config"])
    text = ORDERS.format(prefix=drifted.prefix).replace("delete}", f"delete, {line['yaml']}}}")
    drifted.write("topics/orders.yaml", text)
    drifted.apply().needs(0)
    drifted.run("drift", "--unmanaged", "ignore").needs(0)


def test_nothing_is_changed_by_looking(drifted: Project) -> None:
    live, files = drifted.live(), (drifted.folder / "topics/orders.yaml").read_bytes()
    for output_format in ("text", "json", "markdown", "prometheus", "github"):
        drifted.run("drift", "--format", output_format)
    assert drifted.live() == live
    assert (drifted.folder / "topics/orders.yaml").read_bytes() == files


def test_missing_present_refused_and_hidden_drift(project: Project) -> None:
    for name in ("gone", "stays", "same"):
        project.topic(name)
    project.topic("shrunk", partitions=2)
    project.apply().needs(0)
    delete(project, "gone")
    add_partitions(project, "shrunk", 4)
    project.topic("stays", state="absent")
    document = topics(project)
    found = {one["name"].removeprefix(project.prefix): one for one in document["resources"]}
    assert {name: one["drift"] for name, one in found.items()} == {
        "gone": "missing",
        "shrunk": "differs",
        "stays": "present",
    }
    assert {name: one["apply"]["status"] for name, one in found.items()} == {
        "gone": "planned",
        "shrunk": "refused",
        "stays": "needs_consent",
    }
    assert found["shrunk"]["restore"]["command"] is None
    assert "cannot remove partitions" in found["shrunk"]["restore"]["reason"]
    assert document["summary"]["unchanged"] == 1
    call = project.run("drift", "--unmanaged", "ignore").needs(2)
    assert "Drift: 1 resource differs in 1 field, 1 missing, 1 still present; 1 as declared." in call.out


def test_groups_drift_too(project: Project) -> None:
    name = project.prefix + "g"
    project.topic("a")
    document = {
        "apiVersion": "kafkaform/v1",
        "kind": "ConsumerGroup",
        "metadata": {"name": name},
        "spec": {
            "topics": [project.prefix + "a"],
            "protocol": "consumer",
            "config": {"consumer.session.timeout.ms": "50s"},
        },
    }
    project.write("topics/g.yaml", yaml.safe_dump(document))
    project.apply().needs(0)
    eventually(lambda: project.run("drift", "--unmanaged", "ignore").code, lambda code: code == 0)
    document["spec"]["config"]["consumer.session.timeout.ms"] = "55s"  # type: ignore[index]
    project.write("topics/g.yaml", yaml.safe_dump(document))
    (found,) = topics(project)["resources"]
    assert (found["kind"], found["drift"]) == ("ConsumerGroup", "differs")
    assert found["fields"][0]["live"] == "50000"
    assert found["accept"]["lines"][0]["yaml"] == "consumer.session.timeout.ms: 50s"
    project.run("drift", "--adopt", "--unmanaged", "ignore").needs(0)
    project.run("drift", "--unmanaged", "ignore").needs(0)


def test_an_account_that_cannot_see_a_topic_could_not_tell(
    account: Callable[..., Account], kafka_acl: DevCluster, prefix: str, tmp_path: Path
) -> None:
    """Whatever else drifted: 1 comes before 2. And brokers are asked for nothing but to describe."""
    everything = Project(tmp_path, kafka_acl.bootstrap_servers, prefix)
    everything.topic("seen", config={"retention.ms": "7d"})
    everything.topic("unseen")
    everything.apply().needs(0)
    everything.set_config("seen", "retention.ms", MONTH)
    rights = [f"TOPIC:{prefix}seen:{right}" for right in ("DESCRIBE", "DESCRIBE_CONFIGS")]
    reader = account(*rights)
    project = Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)
    client = {"bootstrap.servers": kafka_acl.sasl_bootstrap_servers, **reader.properties}
    project.config(clusters={"acl": {"client": client}})
    call = project.run("drift").needs(1)
    assert "Not visible to this account" in call.out
    assert f"Topic/{prefix}unseen" in call.out
    assert "live      30d" in call.out
    assert "Incomplete: 1 resource differs in 1 field" in call.out
    seen = project.run("drift", "--target", f"Topic/{prefix}seen").needs(2)
    assert "validated" not in seen.both
    metrics = project.run("drift", "--format", "prometheus").needs(1)
    assert 'kafkaform_drift_success{cluster="acl"} 0.0' in metrics.out
    failed = project.run("drift", "--adopt").needs(1)
    assert f"not adopted Topic/{prefix}unseen: it is not visible to this account" in failed.out


# --- since when ------------------------------------------------------------------------------------


def test_since_when_by_the_record_of_applies(project: Project) -> None:
    project.topic("a", config={"retention.ms": "7d", "segment.ms": "1d"})
    project.topic("b")
    project.run("apply", "--auto-approve", env=RECORDED).needs(0)
    project.set_config("a", "retention.ms", MONTH)
    delete(project, "b")
    project.topic("a", config={"retention.ms": "7d", "segment.ms": "2d"})
    call = project.run("drift", "--unmanaged", "ignore").needs(2)
    an_apply = r"an apply of \d{4}-\d\d-\d\d \d\d:\d\d UTC by \S+( \(commit \w{12}\))?"
    others = "but not by a recorded apply"
    words = " ".join(call.out.split())
    assert re.search(rf"since {an_apply} set 7d; changed since, {others}", words)
    assert re.search(rf"since {an_apply} set the live value; the manifest has another value", words)
    assert re.search(rf"since {an_apply} created or changed it; deleted since, {others}", words)
    causes = {
        field["path"]: field["since"]["cause"]
        for one in topics(project)["resources"]
        for field in one["fields"]
    }
    assert causes == {
        "config.retention.ms": "cluster_changed",
        "config.segment.ms": "manifest_changed",
    }


def test_where_nothing_is_recorded_the_report_says_so(drifted: Project) -> None:
    client = {"bootstrap.servers": drifted.servers}
    drifted.config(clusters={"dev": {"client": client, "audit": {"topic": False}}})
    call = drifted.run("drift", "--unmanaged", "ignore").needs(2)
    assert "Time of the change not known: applies to this cluster are not recorded" in call.out
    assert "    since" not in call.out


# --- what nobody declares --------------------------------------------------------------------------


def test_unmanaged_topics_and_groups(project: Project) -> None:
    mine = f"{project.prefix}mine"
    project.topic("mine")
    project.apply().needs(0)
    (project.folder / "topics/mine.yaml").unlink()
    project.topic("declared")
    project.apply().needs(0)
    commit(project.servers, f"{project.prefix}reader", {(mine, 0): 0})

    def run(*arguments: str) -> Any:
        return project.run("drift", "--format", "json", *arguments)

    told = run().json["unmanaged"]
    assert {"kind": "Topic", "name": mine} in told
    assert {"kind": "ConsumerGroup", "name": f"{project.prefix}reader"} in told
    assert run().needs(0).json["summary"]["drifted"] == 0
    assert run("--unmanaged", "error").needs(2).json["verdict"] == "drift"
    assert run("--unmanaged", "ignore").needs(0).json["unmanaged"] is None
    assert run("--target", "Topic/*").needs(0).json["unmanaged"] is None
    failed = project.run("drift", "--adopt", "--unmanaged", "error").needs(1)
    assert f"not adopted Topic/{mine}: no manifest declares it; kafkaform import writes one" in failed.out


def test_a_part_of_the_manifests_says_nothing_of_the_rest(project: Project) -> None:
    project.topic("a")
    call = project.run("drift", "--unmanaged", "error", "--target", "Topic/*").needs(64)
    assert "--unmanaged error needs all manifests" in call.err


# --- adopting --------------------------------------------------------------------------------------


def test_what_is_adopted_drifts_no_more(drifted: Project) -> None:
    file = drifted.folder / "topics/orders.yaml"
    before = file.read_text("utf-8")
    shown = drifted.run("drift", "--adopt", "--dry-run", "--unmanaged", "ignore").needs(0)
    assert file.read_text("utf-8") == before
    assert "\n-  retention: 7d   # a week\n" in shown.out
    assert "\n+  retention: 30d   # a week\n" in shown.out
    assert "2 values to adopt in 1 file: nothing was written." in shown.out

    call = drifted.run("drift", "--adopt", "--unmanaged", "ignore").needs(0)
    assert "2 values adopted in 1 file: review and commit them." in call.out
    after = file.read_text("utf-8")
    assert after == before.replace("retention: 7d", "retention: 30d").replace(
        "delete}", "delete, segment.ms: 1h}"
    )
    drifted.run("drift", "--unmanaged", "ignore").needs(0)
    assert "No changes" in drifted.run("plan").needs(0).out
    again = drifted.run("drift", "--adopt", "--unmanaged", "ignore").needs(0)
    assert again.out == "Nothing to adopt.\n"


def test_one_resource_of_a_file_is_adopted(drifted: Project) -> None:
    """The others of the file stay as they are, and are known all the same."""
    drifted.topic("other", config={"retention.ms": "1d"})
    drifted.apply("--target", "*other").needs(0)
    drifted.set_config("other", "retention.ms", MONTH)
    both = ORDERS.format(prefix=drifted.prefix) + "---\n"
    both += (drifted.folder / "topics/other.yaml").read_text("utf-8")
    (drifted.folder / "topics/other.yaml").unlink()
    drifted.write("topics/orders.yaml", both)
    drifted.run("drift", "--adopt", "--target", "*other").needs(0)
    (left,) = topics(drifted)["resources"]
    assert left["name"] == f"{drifted.prefix}orders"


def test_what_cannot_be_adopted_is_said(project: Project) -> None:
    name = project.topic("missing")
    project.topic("a", config={"retention.ms": "7d"})
    project.apply("--target", "*a").needs(0)
    project.set_config("a", "retention.ms", MONTH)
    call = project.run("drift", "--adopt", "--unmanaged", "ignore").needs(1)
    assert f"not adopted Topic/{name}: there is nothing on the cluster to adopt" in call.out
    assert call.out.endswith("1 value adopted in 1 file, 1 not adopted: review and commit them.\n")


def test_another_environment_keeps_its_values(project: Project) -> None:
    client = {"bootstrap.servers": project.servers}
    project.config(environments=["dev", "prod"], clusters={"dev": {"client": client, "environment": "dev"}})
    project.topic("a", config={"retention.ms": "7d"})
    project.apply().needs(0)
    project.set_config("a", "retention.ms", MONTH)
    (line,) = topics(project)["resources"][0]["accept"]["lines"]
    assert line["keys"] == ["spec", "overrides", "dev", "config", "retention.ms"]
    project.run("drift", "--adopt", "--unmanaged", "ignore").needs(0)
    project.run("drift", "--unmanaged", "ignore").needs(0)
    spec = yaml.safe_load((project.folder / "topics/a.yaml").read_text("utf-8"))["spec"]
    assert spec["config"] == {"retention.ms": "7d"}
    assert spec["overrides"] == {"dev": {"config": {"retention.ms": "30d"}}}


# --- formats ---------------------------------------------------------------------------------------


def test_markdown_for_an_issue(drifted: Project) -> None:
    call = drifted.run("drift", "--format", "markdown", "--unmanaged", "ignore").needs(2)
    assert call.out.startswith("## kafkaform drift: drift in 1 resource\n\nCluster `dev` (`")
    assert "| `retention.ms` | `7d (604800000)` | `30d (2592000000)` | `topics/orders.yaml:10` |" in call.out


def test_annotations_for_a_workflow(drifted: Project) -> None:
    call = drifted.run("drift", "--format", "github", "--unmanaged", "ignore").needs(2)
    *found, last = call.out.splitlines()
    assert [line.split(",col")[0] for line in found] == [
        "::warning file=topics/orders.yaml,line=10",
        "::warning file=topics/orders.yaml,line=5",
    ]
    assert last == "Drift: 1 resource differs in 2 fields; 0 as declared."


def test_metrics_go_into_a_file_whole(drifted: Project) -> None:
    file = drifted.folder / "out" / "drift.prom"
    file.parent.mkdir()
    assert drifted.run("drift", "--format", "prometheus", "-o", file).needs(2).out == ""
    assert [path.name for path in file.parent.iterdir()] == ["drift.prom"]
    told = {
        sample.name: sample
        for family in text_string_to_metric_families(file.read_text("utf-8"))
        for sample in family.samples
    }
    assert told["kafkaform_drift_success"].value == 1
    fields = told["kafkaform_drift_fields"]
    assert (fields.labels["topic"], fields.labels["cluster"]) == (f"{drifted.prefix}orders", "dev")
    assert fields.value == 2


def test_text_goes_into_a_file_without_colours(drifted: Project) -> None:
    file = drifted.folder / "drift.txt"
    assert drifted.run("drift", "--unmanaged", "ignore", "-o", file).needs(2).out == ""
    assert file.read_text("utf-8").endswith("0 as declared.\n")


def test_on_a_terminal(drifted: Project) -> None:
    terminal = Terminal("drift", "--unmanaged", "ignore", cwd=drifted.folder, columns=72)
    shown = plain(terminal.end().needs(2).out)
    assert "Drift: 1 resource differs in 2 fields" in shown
    long = [line for line in shown.splitlines() if len(line) > 72]
    assert all("kafkaform apply" in line or "topics/orders.yaml:" in line for line in long), long


# --- failure ---------------------------------------------------------------------------------------


def test_nobody_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 0.5)
    nobody = Project(tmp_path, "127.0.0.1:1", "")
    nobody.topic("a")
    file = tmp_path / "drift.prom"
    call = nobody.run("drift", "--format", "prometheus", "--out", file).needs(1)
    assert "no broker" in call.err
    told = {f.name: f.samples[0].value for f in text_string_to_metric_families(file.read_text("utf-8"))}
    assert told["kafkaform_drift_success"] == 0
    assert {*told} == {"kafkaform_drift_success", "kafkaform_drift_last_run_timestamp_seconds"}


def test_a_broken_manifest_is_no_success(project: Project) -> None:
    project.write("topics/a.yaml", "kind: Topic\n")
    call = project.run("drift", "--format", "prometheus").needs(1)
    assert 'kafkaform_drift_success{cluster="dev"} 0.0' in call.out
    assert project.run("drift", "--format", "github").needs(1).out.startswith("::error file=topics/a.yaml")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--dry-run",), "--dry-run needs --adopt"),
        (("--adopt", "--format", "json"), "--adopt prints the edits instead of a report"),
        (("--adopt", "--out", "x"), "--adopt prints the edits instead of a report"),
        (("--unmanaged", "delete"), "'delete'"),
        (("--target", "Topic/none"), "matches no declared resource"),
    ],
)
def test_wrong_usage(project: Project, arguments: tuple[str, ...], says: str) -> None:
    project.topic("a")
    assert says in project.run("drift", *arguments).needs(64).err
