"""The manifests of other tools: what they mean becomes manifests, and what has no counterpart is named.

What could be taken for something else is refused, left out, or kept as it is: two clusters in one input,
booleans and numbers by the reader of the tool, unknown values, empty items, missing fields, templates, and
names that look like numbers.
"""

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
from kafkaform.inspect.importers.conversion import Conversion
from kafkaform.inspect.importing import Import, ImportLayout, make_import
from kafkaform.inspect.resource_status import Selection
from kafkaform.report.edits import list_problems
from tests.support.foreign.examples import EXAMPLES, list_acls
from tests.support.golden import format_value


def convert(path: Path) -> Import:
    conversion = read_foreign([path], AUTO)
    layout = ImportLayout(Path("out"))
    made = make_import(conversion.observation, Selection(), {}, Context(), layout, conversion.additions)
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


def strimzi(kind: str, metadata: str, spec: str) -> str:
    return f"apiVersion: kafka.strimzi.io/v1\nkind: {kind}\nmetadata: {metadata}\nspec: {spec}\n"


def jikkou(kind: str, metadata: str, spec: str) -> str:
    return f"apiVersion: kafka.jikkou.io/v1\nkind: {kind}\nmetadata: {metadata}\nspec: {spec}\n"


def strimzi_user(
    metadata: str, resource: str = "type: topic, name: t", rest: str = "operations: [Read]"
) -> str:
    acls = f"[{{resource: {{{resource}}}, {rest}}}]"
    return strimzi("KafkaUser", metadata, f"{{authorization: {{type: simple, acls: {acls}}}}}")


def strimzi_config(config: str) -> str:
    return strimzi("KafkaTopic", "{name: a}", f"{{partitions: 1, replicas: 1, config: {{{config}}}}}")


def jikkou_acl(name: str, acl: str = "resource: {type: topic, pattern: t}, operations: [READ]") -> str:
    return jikkou("KafkaPrincipalAuthorization", f"{{name: {name}}}", f"{{acls: [{{{acl}}}]}}")


def jikkou_quota(spec: str) -> str:
    return jikkou("KafkaClientQuota", "{}", f"{{{spec}}}")


def gitops(service: str) -> str:
    return f"services: {{s: {{type: application, principal: 'User:s', {service}}}}}\n"


def julie(project: str, context: str = "c") -> str:
    return f"context: {context}\nprojects: [{{name: p, {project}}}]\n"


def julie_app(rest: str) -> str:
    return julie(f"streams: [{{principal: 'User:a', topics: {{read: [x]}}, {rest}}}]")


def topicctl(meta: str, spec: str = "partitions: 1, replicationFactor: 1") -> str:
    return f"meta: {{{meta}}}\nspec: {{{spec}}}\n"


def topicctl_acl(meta: str, resource: str = "", operations: str = "read") -> str:
    known = f"type: topic, name: t, patternType: literal, principal: 'User:a'{resource}"
    return topicctl(meta, f"acls: [{{resource: {{{known}}}, operations: [{operations}]}}]")


def terraform(type_: str, values: dict[str, object], **plan: object) -> str:
    resource = {"address": f"{type_}.r", "mode": "managed", "type": type_, "name": "r", "values": values}
    data = {"format_version": "1.2", "planned_values": {"root_module": {"resources": [resource]}}, **plan}
    return json.dumps(data)


def composite_quota(*types: str) -> str:
    entities = [{"type": each, "name": "a"} for each in types]
    return terraform("kafka_quota_composite", {"entity": entities, "config": {"producer_byte_rate": 1}})


def late(type_: str, **unknown: object) -> dict[str, object]:
    return {"resource_changes": [{"address": f"{type_}.r", "change": {"after_unknown": unknown}}]}


QUOTA: dict[str, object] = {"entity_type": "user", "config": {"producer_byte_rate": 1}}
ACL: dict[str, object] = {
    "resource_type": "Topic",
    "resource_name": "t",
    "acl_principal": "User:a",
    "acl_host": "*",
    "acl_operation": "Read",
    "acl_permission_type": "Allow",
}


def read(folder: Path, text: str, tool: str = AUTO, source: str | None = None) -> Conversion:
    return read_foreign([write(folder, text)], tool, source)


def rights(conversion: Conversion) -> list[str]:
    return sorted(
        str(parse_path(path, observed.ref.name))
        for observed in conversion.observation.resources.values()
        if observed.ref.kind == "Access"
        for path in observed.state
    )


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
    assert rights(read_foreign([EXAMPLES[tool]], tool)) == sorted(map(str, list_acls(tool)))


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
IP_QUOTA = {"mode": "managed", "type": "kafka_quota", "values": VALUES}
BUCKET = {"mode": "managed", "type": "aws_s3_bucket", "values": {"bucket": "logs"}}
UNKNOWN = {**IP_QUOTA, "values": {**VALUES, "entity_name": "10.0.0.1", "per_broker": True}}
STATE = {"root_module": {"resources": [IP_QUOTA, BUCKET, BUCKET, UNKNOWN]}}
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


TEMPLATE = "this is a template"
REFUSED = {
    # Templates, as a name that gets rights, elsewhere, and as a statement of their own.
    "go, group": gitops("consumes: [a], group-id: '{{ .Values.g }}'"),
    "go, unquoted": gitops("consumes: [{{ .Values.t }}]"),
    "go, include": strimzi_user("\n  name: a\n  {{- include 'l' . }}"),
    "jinja, item": julie("topics: [{name: '{{ t }}'}]"),
    "erb": topicctl_acl("name: x", ", host: '<%= h %>'"),
    "envsubst": strimzi_user("{name: '${TEAM}-app'}"),
    "openshift": strimzi_user("{name: a}", "type: group, name: '${{GROUP}}'"),
    "placeholder": gitops("produces: [{team}-orders]"),
    "terraform": 'resource "kafka_topic" "a" {\n  name = "a"\n}\n',
    "terraform, json": '{"resource": {"kafka_topic": {"a": {"name": "a"}}}}',
    "state of terraform": '{"terraform_version": "1.9.0", "resources": []}',
    # No resource.
    "no document": "# nothing\n",
    "empty list": "apiVersion: v1\nkind: List\nitems: []\n",
    "plan without resources": '{"format_version": "1.0"}',
    "log of terraform": '{"@level":"info"}\n{"@level":"info"}\n',
    "saved plan of terraform": "PK\x03\x04",
    # Empty items.
    "empty topic": gitops("consumes: [a, ~]"),
    "empty operation": strimzi_user("{name: a}", rest="operations: [Read, '']"),
    "empty rule": topicctl("name: a", "acls: [~]"),
    "empty part of a config": strimzi_config("cleanup.policy: [compact, ~]"),
    # Missing fields.
    "user without a name": strimzi_user("{}"),
    "principal without a name": jikkou_acl("''"),
    "quota without a user": jikkou_quota("type: USER, entity: {}"),
    "type of a quota": terraform("kafka_quota", QUOTA | {"entity_type": "users", "entity_name": "a"}),
    "two names of a quota": composite_quota("user", "user"),
    "quota of a user and an address": composite_quota("user", "ip"),
    "quota of nothing": composite_quota(),
    "ksql without its id": "context: c\nplatform: {ksql: {instances: [{principal: 'User:k'}]}}\n",
    "julie quota without a principal": "context: c\nplatform: {kafka: {quotas: [{producer_byte_rate: 1}]}}\n",
    # Booleans and numbers that the tool itself refuses, or that readers take for different ones.
    "flag of julie": julie_app("exactlyOnce: 'yes'"),
    "flag of gitops": "settings: {ccloud: {enabled: maybe}}\n",
    "flag of strimzi": strimzi("KafkaTopic", "{name: a, annotations: {strimzi.io/managed: 'no'}}", "{}"),
    "flag of jikkou": jikkou("KafkaTopic", "{name: a, annotations: {jikkou.io/delete: 'on'}}", "{}"),
    "octal config": strimzi_config("retention.ms: 0100"),
    "quota without an end": jikkou_quota("type: CLIENTS_DEFAULT, configs: {producerByteRate: .inf}"),
    "endless minutes": topicctl("name: a", "partitions: 1, retentionMinutes: -1"),
    "unknown strategy": topicctl("name: a", "partitions: 1, placement: {strategy: statics}"),
    "blank name": strimzi_user("{name: ' '}"),
    "two retentions": topicctl("name: a", "partitions: 1, retentionMinutes: 5, settings: {retention.ms: 1}"),
    "mapping as a name": strimzi_user("{name: {a: b}}"),
    # What is declared twice would get the rights of both.
    "two users": strimzi_user("{name: a}") + "---\n" + strimzi_user("{name: a}"),
    "two authorizations": jikkou_acl("'User:a'") + "---\n" + jikkou_acl("'User:a'"),
    "two services": gitops("produces: [a]") + "---\n" + gitops("produces: [b]"),
    "two projects": julie("topics: []") + "---\n" + julie("topics: []"),
}


LEFT_OUT = {
    "host": strimzi_user("{name: a}", rest="host: '', operations: [Read]"),
    "operations": strimzi_user("{name: a}", rest="operations: []"),
    "name of a group": strimzi_user("{name: a}", "type: group"),
    "type of a service": "services: {s: {principal: 'User:s', produces: [a]}}\n",
    "name of a quota": terraform("kafka_quota", QUOTA, **late("kafka_quota", entity_name=True)),
    "host of a plan": terraform("kafka_acl", ACL, **late("kafka_acl", acl_host=True)),
    "one config of a plan": terraform(
        "kafka_topic", {"name": "a"}, **late("kafka_topic", config={"a": True})
    ),
    "quota without limits": jikkou_quota("type: CLIENTS_DEFAULT, configs: {}"),
    "deleted topic": strimzi("KafkaTopic", "{name: a, deletionTimestamp: x}", "{partitions: 1}"),
    "unit of a config": strimzi_config("retention.ms: 7d, max.message.bytes: 1MB"),
    "plan that failed": terraform("kafka_topic", {"name": "a"}, errored=True, resource_changes=[{}]),
    "user of topicctl": topicctl("name: a", "authentication: {type: scram-sha-512, password: x}"),
    "throttle": topicctl("name: a", "settings: {leader.replication.throttled.replicas: ['1']}"),
}


def test_resource_with_unknown_value_gets_no_rights(tmp_path: Path) -> None:
    for text in LEFT_OUT.values():
        conversion = read(tmp_path, text)
        assert conversion.notes.left_out
        assert rights(conversion) == []
        assert not any(ref.kind == "ClientQuota" for ref in conversion.observation.resources)


def test_import_messages_match_golden(tmp_path: Path, golden: SnapshotAssertion) -> None:
    """Each with its file, line and column."""
    files = {**FILES, **REFUSED, **LEFT_OUT}
    lines = [line for name, text in files.items() for line in (f"# {name}", *list_messages(tmp_path, text))]
    assert "\n".join(lines) + "\n" == golden(name="messages.txt")


NAMES = ("1.10", "010", "1e3", "0x1F", "1_000", "2024-01-01", "12:30", "yes", "True", "+5")
PLACES = {
    "kafka-gitops": gitops("consumes: [a], group-id: {}".replace("{}", "NAME")),
    "julieops": julie("topics: [{name: t, consumers: [{principal: 'User:a', group: NAME}]}]"),
    "topicctl": topicctl_acl("name: x", operations="read").replace("name: t,", "name: NAME,"),
    "jikkou": jikkou_acl("'User:a'").replace("pattern: t", "pattern: NAME"),
    "strimzi": strimzi_user("{name: a}", "type: topic, name: NAME"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tool", PLACES)
def test_imported_name_is_unchanged(tmp_path: Path, tool: str, name: str) -> None:
    conversion = read(tmp_path, PLACES[tool].replace("NAME", name), tool)
    assert any(right.split()[-1] == name for right in rights(conversion))
    quoted = read(tmp_path, PLACES[tool].replace("NAME", f"'{name}'"), tool)
    assert rights(quoted) == rights(conversion)
    assert quoted.notes.left_out == []
    # JulieOps and jikkou make another text of most of them.
    differs = tool in {"julieops", "jikkou"} and name not in {"2024-01-01", "12:30"}
    assert len(conversion.notes.left_out) == differs


@pytest.mark.parametrize(
    ("tool", "text", "value"),
    [
        ("strimzi", strimzi_config("retention.ms: 6.048e+08"), "604800000"),
        ("strimzi", strimzi_config("retention.ms: '1e3'"), "1e3"),
        ("strimzi", strimzi_config("retention.ms: y"), "true"),
        ("strimzi", strimzi_config("retention.ms: [a, 1.0, no]"), "a,1,false"),
        ("topicctl", topicctl("name: a", "settings: {retention.ms: 0.505}"), "0.51"),
        ("topicctl", topicctl("name: a", "settings: {retention.ms: '0.505'}"), "0.505"),
        ("jikkou", jikkou("KafkaTopic", "{name: a}", "{configs: {retention.ms: on}}"), "true"),
        ("jikkou", jikkou("KafkaTopic", "{name: a}", "{configs: {retention.ms: y}}"), "y"),
        ("julieops", julie("topics: [{name: a, config: {retention.ms: Off}}]"), "false"),
        ("kafka-gitops", "topics: {a: {configs: {retention.ms: off}}}", "off"),
        ("terraform", terraform("kafka_topic", {"name": "a", "config": {"retention.ms": "010"}}), "010"),
    ],
)
def test_imported_config_matches_tool(tmp_path: Path, tool: str, text: str, value: str) -> None:
    (topic,) = read(tmp_path, text, tool).observation.resources.values()
    assert topic.state["config.retention.ms"] == value


@pytest.mark.parametrize("flag", ["yes", "On", "TRUE", "'True'", "1"])
def test_boolean_spellings_follow_tool(tmp_path: Path, flag: str) -> None:
    conversion = read(tmp_path, julie_app(f"applicationId: app, exactlyOnce: {flag}"))
    assert sum("transactional" in right for right in rights(conversion)) == 2
    off = read(tmp_path, julie_app(f"applicationId: app, exactlyOnce: {'off' if flag == 'On' else 'no'}"))
    assert not any("transactional" in right for right in rights(off))


@pytest.mark.parametrize("flag", ["True", "'yes'", "y", "on", "true"])
def test_topic_deleted_by_jikkou_is_omitted(tmp_path: Path, flag: str) -> None:
    annotations = f"annotations: {{jikkou.io/delete: {flag}}}"
    topic = jikkou("KafkaTopic", f"{{name: a, {annotations}}}", "{partitions: 1, replicas: 1}")
    topics = jikkou("KafkaTopicList", f"{{{annotations}}}", "{}")
    items = "items: [{metadata: {name: a}, spec: {partitions: 1, replicas: 1}}]\n"
    for text in (topic, topics.replace("spec: {}\n", items)):
        conversion = read(tmp_path, text)
        assert not conversion.observation.resources
        assert len(conversion.notes.left_out) == 1


def provider_config(module: str, key: str) -> dict[str, object]:
    resources = [{"type": "kafka_acl", "name": "r", "provider_config_key": key, "expressions": {}}]
    return {module: {"module": {"resources": resources}}}


def modules() -> str:
    """Two modules of Terraform, each with a provider of its own."""
    children = [
        {
            "address": f"module.{name}[0]",
            "resources": [{"type": "kafka_acl", "name": "r", "values": ACL | {"acl_operation": operation}}],
        }
        for name, operation in (("dev", "Read"), ("prod", "Write"))
    ]
    calls = provider_config("dev", "kafka.dev") | provider_config("prod", "kafka.prod")
    return json.dumps(
        {
            "format_version": "1.2",
            "planned_values": {"root_module": {"child_modules": children}},
            "configuration": {"root_module": {"module_calls": calls}},
        }
    )


def cloud_acls() -> str:
    resources = [
        {
            "address": f"confluent_kafka_acl.{cluster}", "type": "confluent_kafka_acl", "name": cluster,
            "values": {
                "kafka_cluster": [{"id": cluster}], "resource_type": "TOPIC", "resource_name": "t",
                "pattern_type": "LITERAL", "principal": "User:a", "host": "*", "operation": operation,
                "permission": "ALLOW",
            },
        }
        for cluster, operation in (("lkc-1", "READ"), ("lkc-2", "WRITE"))
    ]  # fmt: skip
    return json.dumps({"format_version": "1.0", "values": {"root_module": {"resources": resources}}})


def both(first: str, second: str) -> str:
    return f"{first}---\n{second}"


def cluster_label(name: str) -> str:
    return f"labels: {{strimzi.io/cluster: {name}}}"


CLUSTERS: dict[str, tuple[str, str]] = {
    "labels": (
        both(
            strimzi_user(f"{{name: a, {cluster_label('dev')}}}"),
            strimzi_user(f"{{name: a, {cluster_label('prod')}}}", rest="operations: [Write]"),
        ),
        "prod",
    ),
    "namespaces": (
        both(
            strimzi_user(f"{{name: a, namespace: dev, {cluster_label('c')}}}"),
            strimzi_user(f"{{name: a, namespace: prod, {cluster_label('c')}}}", rest="operations: [Write]"),
        ),
        "c/prod",
    ),
    "environments": (
        both(
            topicctl_acl("cluster: c, environment: dev, region: r"),
            topicctl_acl("cluster: c, environment: prod, region: r", operations="write"),
        ),
        "c/prod/r",
    ),
    "contexts": (
        both(
            julie("topics: [{name: t, consumers: [{principal: 'User:a'}]}]", "dev"),
            julie("topics: [{name: t, producers: [{principal: 'User:a'}]}]", "prod"),
        ),
        "prod",
    ),
    "providers of jikkou": (
        both(
            jikkou_acl("'User:a', annotations: {jikkou.io/provider: dev}"),
            jikkou_acl(
                "'User:a', annotations: {jikkou.io/provider: prod}",
                "resource: {type: topic, pattern: t}, operations: [WRITE]",
            ),
        ),
        "prod",
    ),
    "ids": (cloud_acls(), "lkc-2"),
    "providers of terraform": (modules(), "kafka.prod"),
}


@pytest.mark.parametrize(("text", "name"), CLUSTERS.values(), ids=CLUSTERS)
def test_several_source_clusters_need_selection(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        read(tmp_path, text)
    assert "--source-cluster" in str(caught.value.hint)
    with pytest.raises(UsageError, match="nothing of the"):
        read(tmp_path, text, source="other")
    conversion = read(tmp_path, text, source=name)
    assert any("Write on topic" in right for right in rights(conversion))
    assert not any("Read on topic" in right for right in rights(conversion))
    assert len(conversion.notes.remarks) == 1
    assert conversion.notes.left_out == []


def test_cluster_without_namespace_matches_single_namespace(tmp_path: Path) -> None:
    known = strimzi_user(f"{{name: a, namespace: n, {cluster_label('c')}}}")
    unknown = strimzi_user(f"{{name: b, {cluster_label('c')}}}", rest="operations: [Write]")
    assert len(rights(read(tmp_path, both(known, unknown)))) == 2
    # Of two, it may be either.
    second = known.replace("namespace: n", "namespace: m")
    conversion = read(tmp_path, both(known, both(unknown, second)), source="c/n")
    assert len(rights(conversion)) == 1
    assert len(conversion.notes.left_out) == 1


def test_unrelated_documents_do_not_stop_import(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [user.yaml]\n", "utf-8")
    (tmp_path / "namespace.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", "utf-8"
    )
    (tmp_path / "user.yaml").write_text(strimzi_user("{name: a}"), "utf-8")
    conversion = read_foreign([tmp_path], AUTO)
    assert len(rights(conversion)) == 1
    assert conversion.notes.left_out == []
    assert len(conversion.notes.remarks) == 2
    # What may have been meant for the tool is no remark.
    (tmp_path / "values.yaml").write_text("users: 1\nname: a\n", "utf-8")
    misspelt = strimzi("KafkaTopic", "{name: a}", "{}").replace("strimzi", "strimz")
    (tmp_path / "topic.yaml").write_text(misspelt, "utf-8")
    assert len(read_foreign([tmp_path], AUTO).notes.left_out) == 2


def test_empty_fields_are_not_reported_as_omitted(tmp_path: Path) -> None:
    assert read(tmp_path, julie("zookeepers: [], rbac: {}, schemas: []")).notes.left_out == []
    role = jikkou("KafkaPrincipalRole", "{name: r}", "{acls: [{resource: {type: topic, pattern: t}}]}")
    unused = read(tmp_path, role)
    assert unused.notes.left_out == []
    assert len(unused.notes.remarks) == 1


def test_computed_terraform_value_is_not_unknown(tmp_path: Path) -> None:
    type_ = "confluent_kafka_topic"
    values: dict[str, object] = {"topic_name": "a", "partitions_count": 6}
    plan = late(type_, id=True, config=True, kafka_cluster=[{}])
    declared = [{"type": type_, "name": "r", "expressions": {"topic_name": {}}}]
    configured = {"configuration": {"root_module": {"resources": declared}}}
    assert not read(tmp_path, terraform(type_, values, **plan)).observation.resources
    assert read(tmp_path, terraform(type_, values, **plan, **configured)).observation.resources


def test_terraform_source_is_refused_as_template(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text("# nothing", "utf-8")
    with pytest.raises(InvalidInput) as caught:
        read_foreign([tmp_path], AUTO)
    (problem,) = caught.value.problems
    assert problem.message.startswith(TEMPLATE)
