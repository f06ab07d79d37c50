"""The manifests of other tools: what they mean becomes manifests, and what has no counterpart is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
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
from tests.support.golden import format_value


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


def list_messages(folder: Path, text: str) -> list[str]:
    """Return why a file is refused, or else what is not converted of it, without the folder."""
    try:
        messages = list_problems(convert(write(folder, text)))
    except InvalidInput as error:
        messages = [f"refused: {problem}" for problem in error.problems]
    return [message.replace(f"{folder}/", "") for message in messages]


@pytest.mark.parametrize("tool", IMPORTERS)
def test_tool_example_becomes_golden_manifests(tool: str, golden: SnapshotAssertion) -> None:
    made = convert(EXAMPLES[tool])
    texts = [
        f"# {file.path}\n{format_value(document)}"
        for file in made.files
        for document in ([file.text] if file.path.suffix != ".yaml" else yaml.safe_load_all(file.text))
    ]
    texts += [line.replace(f"{EXAMPLES[tool].parent}/", "") for line in list_problems(made)]
    assert "\n".join(texts) + "\n" == golden(name=f"{tool}.txt")


@pytest.mark.parametrize("tool", IMPORTERS)
def test_imported_acls_match_tool(tool: str) -> None:
    resources = read_foreign([EXAMPLES[tool]], tool).observation.resources.values()
    acls = [
        str(parse_path(path, observed.ref.name))
        for observed in resources
        if observed.ref.kind == "Access"
        for path in observed.state
    ]
    assert sorted(acls) == sorted(map(str, list_acls(tool)))


JIKKOU = "apiVersion: kafka.jikkou.io/v1\nmetadata: {name: a}\n"


FORK = """\
settings:
  schemaRegistry: {url: "http://schemas.example.com"}
  topics: {defaults: {partitions: 6, replication: 3}, whitelist: {prefixed: [a]}}
topics: {a: {}}
schemas: {a: {schema: "{}"}}
"""
JULIEOPS_TOPIC = "{name: t, plan: gold, config: {num.partitions: 1, replication.factor: 1}}"
VALUES = {"entity_name": None, "entity_type": "ip", "config": {"connection_creation_rate": 10}}
QUOTA = {"mode": "managed", "type": "kafka_quota", "values": VALUES}
BUCKET = {"mode": "managed", "type": "aws_s3_bucket", "values": {"bucket": "logs"}}
UNKNOWN = {**QUOTA, "values": {**VALUES, "entity_name": "10.0.0.1", "per_broker": True}}
STATE = {"root_module": {"resources": [QUOTA, BUCKET, BUCKET, UNKNOWN]}}
TERRAFORM = json.dumps({"format_version": "1.2", "planned_values": STATE})
FILES = {
    "no known tool": "a: 1\n---\n- 2",
    "unknown values of a topic": (
        "topics: {a: {partitions: -1, configs: {future.config: 1, retention.ms: null}}}"
    ),
    "wrong types": (
        "topics: {a: {partitions: few, replication: [1], configs: x}}\nservices: [1]\nusers: {b: {roles: x}}"
    ),
    "fork of kafka-gitops": FORK,
    "refused by kafka-gitops itself": """\
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
""",
    "service accounts of Confluent Cloud": (
        "settings: {ccloud: {enabled: true}}\nservices: {a: {type: application, produces: [b]}}"
    ),
    "julieops without its plans": f"context: c\nprojects: [{{name: p, topics: [{JULIEOPS_TOPIC}]}}]",
    "custom roles of julieops": (
        "context: c\nprojects: [{name: p, operators: [{principal: 'User:a'}]}]\n---\nroles: [{name: o}]"
    ),
    "names that Kafka refuses": f"""\
context: c
projects:
- {{name: p, topics: [{JULIEOPS_TOPIC}, {JULIEOPS_TOPIC.replace("name: t", "name: bär baz")}]}}
---
plans: {{gold: {{config: {{}}}}}}
""",
    "groups of jikkou": f"{JIKKOU}kind: KafkaShareGroup\nspec: {{configs: {{share.isolation.level: x}}}}",
    "jikkou without what is referred to": f"""\
{JIKKOU}kind: KafkaTopic
spec: {{partitions: 1, replicas: 1, configMapRefs: [b]}}
---
{JIKKOU}kind: KafkaPrincipalAuthorization
spec: {{roles: [c]}}
---
{JIKKOU}kind: KafkaClientQuota
spec: {{type: HOST, configs: {{producerByteRate: 1}}}}
---
{JIKKOU}kind: KafkaClientQuota
spec: {{type: CLIENT, entity: {{clientId: a}}, configs: {{producerByteRate: fast}}}}
""",
    "other resources of terraform": TERRAFORM,
}


def test_import_messages_match_golden(tmp_path: Path, golden: SnapshotAssertion) -> None:
    """Each with its file, line and column."""
    lines = [line for name, text in FILES.items() for line in (f"# {name}", *list_messages(tmp_path, text))]
    assert "\n".join(lines) + "\n" == golden(name="messages.txt")


def test_files_of_several_tools_are_refused() -> None:
    with pytest.raises(UsageError, match="jikkou, strimzi") as mixed:
        read_foreign([EXAMPLES["strimzi"], EXAMPLES["jikkou"]], AUTO)
    assert "--from jikkou" in (mixed.value.hint or "")
    with pytest.raises(InvalidInput) as caught:
        read_foreign([EXAMPLES["strimzi"]], "topicctl")
    assert len(caught.value.problems) == 5


def test_folder_is_read_with_referenced_files(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    write(tmp_path, "settings: {files: {topics: topics/t.yaml, users: users.yaml}}")
    write(tmp_path / "topics", "topics: {a: {partitions: 1, replication: 1}}", "t.yaml")
    made = convert(tmp_path)
    assert [ref.name for ref in made.refs] == ["a"]
    (missing,) = made.unconverted
    assert "state.yaml:1:43: files.users: not read" in str(missing)
