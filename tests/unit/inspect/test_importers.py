"""The manifests of other tools: what they mean becomes manifests, and what has no counterpart is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifests.loader import Context
from kafkaform.core.acl_fields import parse_path
from kafkaform.core.errors import InvalidInput, UsageError
from kafkaform.core.values import replace
from kafkaform.inspect.importers import AUTO, IMPORTERS, read_foreign
from kafkaform.inspect.importing import Import, ImportLayout, make_import
from kafkaform.inspect.resource_status import Selection
from kafkaform.report.edits import list_problems
from tests.support.foreign.examples import EXAMPLES, list_acls
from tests.support.golden import wording


def convert(*paths: Path, tool: str = AUTO, context: Context | None = None) -> Import:
    conversion = read_foreign(paths, tool)
    made = make_import(
        conversion.observation,
        Selection(),
        {},
        context or Context(),
        ImportLayout(Path("out")),
        conversion.additions,
    )
    return replace(made, partial=(), not_converged={}, unconverted=conversion.list_unconverted(made))


def write(folder: Path, text: str, name: str = "state.yaml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def problems(folder: Path, text: str, tool: str = AUTO) -> list[str]:
    """What is not converted of a file, without the folder."""
    return [line.replace(f"{folder}/", "") for line in list_problems(convert(write(folder, text), tool=tool))]


def mistakes(folder: Path, text: str, tool: str = AUTO) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read_foreign([write(folder, text)], tool)
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]


@pytest.mark.parametrize("tool", IMPORTERS)
def test_the_example_of_each_tool_becomes_these_manifests(tool: str, golden: SnapshotAssertion) -> None:
    made = convert(EXAMPLES[tool])
    texts = [f"# {file.path}\n{file.text}" for file in made.files]
    texts += [line.replace(f"{EXAMPLES[tool].parent}/", "") for line in list_problems(made)]
    assert "\n".join(texts) + "\n" == golden(name=f"{tool}.txt")


@pytest.mark.parametrize("tool", IMPORTERS)
def test_the_acls_are_those_that_the_tool_creates(tool: str) -> None:
    resources = read_foreign([EXAMPLES[tool]], tool).observation.resources.values()
    acls = [
        str(parse_path(path, observed.ref.name))
        for observed in resources
        if observed.ref.kind == "Access"
        for path in observed.state
    ]
    assert sorted(acls) == sorted(map(str, list_acls(tool)))


def test_the_files_of_one_run_are_of_one_tool(tmp_path: Path) -> None:
    with pytest.raises(UsageError, check=lambda error: f"{error} ({error.hint})" == wording):
        read_foreign([EXAMPLES["strimzi"], EXAMPLES["jikkou"]], AUTO)
    with pytest.raises(InvalidInput) as caught:
        read_foreign([EXAMPLES["strimzi"]], "topicctl")
    assert len(caught.value.problems) == 5
    assert mistakes(tmp_path, "a: 1\n---\n- 2") == wording
    assert mistakes(tmp_path, "a: [") == wording


def test_a_folder_is_read_with_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    write(tmp_path, "settings: {files: {topics: topics/t.yaml, users: users.yaml}}")
    write(tmp_path / "topics", "topics: {a: {partitions: 1, replication: 1}}", "t.yaml")
    made = convert(tmp_path)
    assert [ref.name for ref in made.refs] == ["a"]
    assert [str(each).replace(f"{tmp_path}/", "") for each in made.unconverted] == wording


def test_a_count_may_be_left_to_the_broker_or_to_defaults(tmp_path: Path) -> None:
    text = "topics: {a: {partitions: -1, configs: {future.config: 1, retention.ms: null}}}"
    assert problems(tmp_path, text) == wording
    with_defaults = Context(defaults={"Topic": ({"partitions": 3, "replicationFactor": 3},)})
    made = convert(write(tmp_path, "topics: {a: {}}"), context=with_defaults)
    assert "partitions" not in made.files[0].text


def test_values_of_wrong_types_are_mistakes(tmp_path: Path) -> None:
    text = (
        "topics: {a: {partitions: few, replication: [1], configs: x}}\nservices: [1]\nusers: {b: {roles: x}}"
    )
    assert mistakes(tmp_path, text) == wording


def test_a_resource_is_declared_once(tmp_path: Path) -> None:
    topic = "meta: {name: a}\nspec: {partitions: 1, replicationFactor: 1}\n"
    assert mistakes(tmp_path, f"{topic}---\n{topic}") == wording


# --- kafka-gitops and its forks ---------------------------------------------------------------------


def test_a_fork_has_schemas_and_more_defaults(tmp_path: Path) -> None:
    text = """\
settings:
  schemaRegistry: {url: "http://schemas.example.com"}
  topics: {defaults: {partitions: 6, replication: 3}, whitelist: {prefixed: [a]}}
topics: {a: {}}
schemas: {a: {schema: "{}"}}
"""
    made = convert(write(tmp_path, text))
    assert "partitions: 6\n  replicationFactor: 3\n" in made.files[0].text
    assert problems(tmp_path, text) == wording


def test_what_kafka_gitops_itself_refuses_is_named(tmp_path: Path) -> None:
    text = """\
services:
  no-principal: {type: application, produces: [a]}
  no-type: {type: ksql}
users:
  no-role: {principal: "User:a", roles: [admin]}
customServiceAcls:
  nobody: {one: {name: a, type: TOPIC, pattern: LITERAL, operation: READ}}
customUserAcls:
  no-role:
    wrong: {name: a, type: TOPIC, pattern: LITERAL, operation: COMMIT}
    cluster: {name: mine, type: CLUSTER, pattern: LITERAL, operation: ALTER}
"""
    assert problems(tmp_path, text) == wording


def test_service_accounts_of_confluent_cloud_are_known_there_only(tmp_path: Path) -> None:
    text = "settings: {ccloud: {enabled: true}}\nservices: {a: {type: application, produces: [b]}}"
    assert problems(tmp_path, text) == wording


# --- the other tools --------------------------------------------------------------------------------


def test_topicctl_replaces_variables(tmp_path: Path) -> None:
    text = 'meta: {name: "${TEAM}.orders"}\nspec: {partitions: 1, replicationFactor: 1}'
    assert mistakes(tmp_path, text) == wording


def test_julieops_needs_the_plans_and_has_custom_roles(tmp_path: Path) -> None:
    topic = "{name: t, plan: gold, config: {num.partitions: 1, replication.factor: 1}}"
    assert mistakes(tmp_path, f"context: c\nprojects: [{{name: p, topics: [{topic}]}}]") == wording
    text = "context: c\nprojects: [{name: p, operators: [{principal: 'User:a'}]}]\n---\nroles: [{name: o}]"
    assert problems(tmp_path, text) == wording


def test_jikkou_needs_what_is_referred_to(tmp_path: Path) -> None:
    head = "apiVersion: kafka.jikkou.io/v1\nmetadata: {name: a}\n"
    text = f"""\
{head}kind: KafkaTopic
spec: {{partitions: 1, replicas: 1, configMapRefs: [b]}}
---
{head}kind: KafkaPrincipalAuthorization
spec: {{roles: [c]}}
---
{head}kind: KafkaClientQuota
spec: {{type: HOST, configs: {{producerByteRate: 1}}}}
---
{head}kind: KafkaClientQuota
spec: {{type: CLIENT, entity: {{clientId: a}}, configs: {{producerByteRate: fast}}}}
"""
    assert mistakes(tmp_path, text) == wording


def test_terraform_shows_the_values_after_a_plan(tmp_path: Path) -> None:
    values = '{"entity_name": null, "entity_type": "ip", "config": {"connection_creation_rate": 10}}'
    resource = f'{{"mode": "managed", "type": "kafka_quota", "values": {values}}}'
    other = '{"mode": "managed", "type": "aws_s3_bucket", "values": {"bucket": "logs"}}'
    unknown = resource.replace("}}", '}, "per_broker": true}').replace("null", '"10.0.0.1"')
    planned = f'{{"root_module": {{"resources": [{resource}, {other}, {other}, {unknown}]}}}}'
    text = f'{{"format_version": "1.2", "planned_values": {planned}}}'
    assert [ref.name for ref in convert(write(tmp_path, text)).refs] == ["ip=10.0.0.1", "ip=<default>"]
    assert problems(tmp_path, text) == wording
