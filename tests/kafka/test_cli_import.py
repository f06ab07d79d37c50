"""`kafkaform import` on a real Kafka: what other tools made becomes manifests whose plan is empty."""

from pathlib import Path

from confluent_kafka.admin import NewTopic

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import TIMEOUT_S, admin_client, eventually
from tests.support.clusters.group_clients import commit
from tests.support.plans.scenes import VARIED


def test_plan_of_imported_topics_and_groups_is_empty(kafka3: DevCluster, prefix: str, tmp_path: Path) -> None:
    """Of topics as Kafka's own tools make them, with every shape of configs, on one and two brokers."""
    project = Project(tmp_path, kafka3.bootstrap_servers, prefix)
    topics = [
        NewTopic(f"{prefix}{number:03}", 1 + number % 3, 1 + number % 2, config=VARIED[number % len(VARIED)])
        for number in range(3 * len(VARIED))
    ]
    admin, names = admin_client(project.servers), {topic.topic for topic in topics}
    for future in admin.create_topics(topics, request_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)
    eventually(lambda: {*admin.list_topics(timeout=TIMEOUT_S).topics}, lambda found: names <= found)
    commit(project.servers, f"{prefix}shop/eu 1", {(f"{prefix}000", 0): 0})
    call = project.run("import", "--match", f"{prefix}*").needs(0)
    assert call.out.startswith(f"Written: {len(topics)} topics and 1 group in {len(topics) + 1} files ")
    plan = project.run("plan", "--format", "json", "--detailed-exitcode").needs(0).json
    assert (plan["changes"], plan["undeclared"], plan["unknown"]) == ([], [], [])
    assert plan["summary"]["unchanged"] == len(topics) + 1
    files = (project.folder / "topics").rglob("*.yaml")
    assert {line for file in files for line in file.read_text("utf-8").splitlines() if "Factor" in line} == {
        "  replicationFactor: 1",
        "  replicationFactor: 2",
    }
