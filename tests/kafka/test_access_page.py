"""docs/access.md, from an open cluster to least privilege: its commands on a broker that lets everyone in."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.support.cli.project import Project
from tests.support.clusters.fixtures import guarded

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
CODES = {
    "kafkaform who-can read orders.v1": 0,
    "kafkaform import --kind access --out access": 0,
    "kafkaform plan": 1,
    "kafkaform apply --auto-approve --allow 'Access/*:closes-access'": 0,
    "kafkaform can User:checkout write orders.v1": 0,
    "kafkaform can User:stranger read orders.v1": 2,
    "kafkaform drift": 0,
    "kafkaform can User:checkout read ConsumerGroup/checkout-audit": 0,
    "kafkaform can User:checkout write orders.v1 --host 10.0.0.1": 0,
    "kafkaform who-can alter Cluster --format json": 0,
}
"""The exit code of each command of the page, in order."""


def test_the_page_takes_an_open_cluster_to_least_privilege(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    commands = re.findall(r"^ *(kafkaform .+)$", text, re.MULTILINE)
    assert commands == list(CODES)
    access, applications, settings, _, _ = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    properties = {"allow.everyone.if.no.acl.found": "true", "super.users": "User:admin;User:ANONYMOUS"}
    with guarded(1, heap_mb=256, sasl_users={"a": "b"}, properties=properties) as cluster:
        project = Project(tmp_path, cluster.bootstrap_servers, "")
        project.topic("orders.v1")
        project.write("topics/access.yaml", f"{access}---\n{applications}")
        authorizer = yaml.safe_load(settings)["clusters"]["prod"]["authorizer"]
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        project.config(clusters={"prod": {"client": client, "authorizer": authorizer}})
        for command, code in CODES.items():
            arguments = [argument.strip("'") for argument in command.split()[1:]]
            outcome = project.run(*arguments)
            assert outcome.code == code, f"{command}\n{outcome.both}"
            if command == "kafkaform plan":
                assert "closes-access" in outcome.out
