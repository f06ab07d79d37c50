"""JulieOps: topologies, and the plans that their topics refer to.

Names of topics and ACLs are those of its default settings, by its classes `ProjectImpl`, `Topic`,
`AccessControlManager` and `AclsBindingsBuilder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.acls import CLUSTER_NAME, WILDCARD
from kafkaform.core.values import Value
from kafkaform.core.wording import quoted
from kafkaform.inspect.importers.conversion import Conversion, Right, fill_rights, principal_ref
from kafkaform.inspect.importers.fields import Fields, ScalarReading
from kafkaform.resources.subject.schema import AVRO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Data

READING = ScalarReading.TREE
_NAMELESS = ("context", "platform", "projects", "special_topics")
"""The fields of a topology that are no part of the names of its topics, except that `context` comes first."""
_LIMITS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
_STRATEGIES = {
    "TopicNameStrategy": "{topic}-{part}",
    "RecordNameStrategy": "{record}",
    "TopicRecordNameStrategy": "{topic}-{record}",
}
"""How subjects are named."""
_RBAC = "roles of Confluent's RBAC are not ACLs"

_STREAMS: tuple[Right, ...] = (
    ("topic", "{applicationId}", "prefixed", ("All",)),
    ("group", "{applicationId}", "prefixed", ("Read",)),
)
_EXACTLY_ONCE: tuple[Right, ...] = (
    ("transactional-id", "{applicationId}", "prefixed", ("Write", "Describe")),
)
_KSQL: tuple[Right, ...] = (
    ("topic", "{applicationId}", "prefixed", ("All",)),
    ("group", "{applicationId}", "prefixed", ("All",)),
)
_Rights: TypeAlias = "tuple[Mapping[str, str], tuple[Right, ...]]"
"""Fields with their defaults, and the rights with names of these."""
_CONNECT: _Rights = (
    {
        "status_topic": "connect-status",
        "offset_topic": "connect-offsets",
        "configs_topic": "connect-configs",
        "group": "connect-cluster",
    },
    (
        ("topic", "{status_topic}", "literal", ("Read", "Write")),
        ("topic", "{offset_topic}", "literal", ("Read", "Write")),
        ("topic", "{configs_topic}", "literal", ("Read", "Write")),
        ("group", "{group}", "literal", ("Read",)),
        ("cluster", CLUSTER_NAME, "literal", ("Create",)),
    ),
)
_CENTER_OPERATIONS = ("Write", "Read", "Create", "Describe")
_PLATFORM: Mapping[str, _Rights] = {
    "kafka": ({}, ()),
    "kafka_connect": ({}, ()),
    "schema_registry": (
        {"topic": "_schemas", "consumer_offsets_topic": "__consumer_offsets", "group": "schema-registry"},
        (
            ("topic", "{topic}", "literal", ("Create", "DescribeConfigs", "Describe", "Write", "Read")),
            ("topic", "{consumer_offsets_topic}", "literal", ("Describe",)),
            ("group", "{group}", "literal", ("Read",)),
        ),
    ),
    "control_center": (
        {"appId": ""},
        (
            ("group", "{appId}", "prefixed", ("Read",)),
            ("group", "{appId}-command", "prefixed", ("Read",)),
            ("group", WILDCARD, "literal", ("Describe",)),
            ("topic", "_confluent-monitoring", "literal", _CENTER_OPERATIONS),
            ("topic", "_confluent-command", "literal", _CENTER_OPERATIONS),
            ("topic", "_confluent-metrics", "literal", _CENTER_OPERATIONS),
            ("topic", "_confluent-controlcenter", "prefixed", _CENTER_OPERATIONS),
            ("topic", WILDCARD, "literal", ("Create",)),
            ("cluster", CLUSTER_NAME, "literal", ("Describe", "DescribeConfigs")),
        ),
    ),
    "ksql": (
        {"ksqlDbId": ""},
        (
            ("cluster", CLUSTER_NAME, "literal", ("DescribeConfigs",)),
            ("topic", "_confluent-ksql-{ksqlDbId}", "prefixed", ("All",)),
            ("topic", "{ksqlDbId}ksql_processing_log", "literal", ("All",)),
            ("group", "_confluent-ksql-{ksqlDbId}", "prefixed", ("All",)),
        ),
    ),
}
"""The components of a platform, and the rights of their instances."""


def matches(data: Mapping[str, Data]) -> bool:
    """Return whether a document is a topology, or has plans or roles."""
    return "context" in data or data.keys() in ({"plans"}, {"roles"})


def convert(documents: Sequence[Fields], out: Conversion) -> None:
    """Convert topologies, with the plans of all files."""
    plans: dict[str, Mapping[str, str]] = {}
    for document in documents:
        document.leave_out("write the ACLs of custom roles by hand", "roles")
        for name, plan in document.list_named("plans"):
            plan.ignore("alias")
            out.declare(plan, f"the plan {name}")
            plans[name] = plan.configs("config", ScalarReading.SOURCE)
    for document in documents:
        if "context" not in document.names:
            continue
        # JulieOps refuses two contexts, unless they are allowed.
        if not out.takes(document, document.require("context")):
            continue
        names = ("context", *(name for name in document.names if name not in _NAMELESS))
        prefix = "".join(f"{document.require(name)}." for name in names)
        for project in document.list_each("projects"):
            start = f"{prefix}{project.require('name')}."
            out.declare(project, f"the project {start[:-1]}")
            _Project(project, start, plans, out).convert()
        for topic in document.list_each("special_topics"):
            name = topic.require("name")
            _add_topic(topic, name, plans, out)
            topic.ignore("dataType")
            for right in (*_list_consumers(topic), *_list_producers(topic)):
                right.add(name, out)
        _convert_platform(document.below("platform"), out)


class _Project(Value):
    """A project of a topology.

    Attributes:
        prefix: The start of the names of its topics.
        plans: The configs of each plan.
        out: Gets what it declares.
    """

    fields: Fields
    prefix: str
    plans: Mapping[str, Mapping[str, str]]
    out: Conversion

    def convert(self) -> None:
        """Convert its topics and applications."""
        consumers, producers = _list_consumers(self.fields), _list_producers(self.fields)
        for topic in self.fields.list_each("topics"):
            data_type = topic.name("dataType")
            name = f"{self.prefix}{topic.require('name')}{data_type and f'.{data_type}'}"
            _add_topic(topic, name, self.plans, self.out)
            # Of several producers with one principal, JulieOps takes the first.
            chosen = {user.principal: user for user in reversed([*_list_producers(topic), *producers])}
            for user in (*_list_consumers(topic), *consumers, *chosen.values()):
                user.add(name, self.out)
        for app in self.fields.list_each("streams"):
            _add_application(app, {"applicationId": self.prefix}, _STREAMS, self.out)
            if app.flag("exactlyOnce"):
                _add_rights(app, fill_rights(app, {"applicationId": self.prefix}, _EXACTLY_ONCE), self.out)
        for app in self._list_applications("ksql"):
            app.ignore("ksqlDbId")
            _add_application(app, {"applicationId": self.prefix}, _KSQL, self.out)
        for connector in self._list_applications("connectors"):
            connector.leave_out(_RBAC, "connectors", "cluster_id")
            _add_application(connector, *_CONNECT, self.out)
        self.fields.leave_out(_RBAC, "schemas", "rbac")
        self.fields.leave_out("write the ACLs of a custom role by hand", *self.fields.untaken)

    def _list_applications(self, name: str) -> Iterator[Fields]:
        """List applications, which may be beside the files of their queries or connectors."""
        if self.fields.has_list(name):
            return self.fields.list_each(name)
        section = self.fields.below(name)
        section.leave_out("queries and connectors are not managed", "artefacts", "artifacts")
        return section.list_each("access_control")


def _add_topic(topic: Fields, name: str, plans: Mapping[str, Mapping[str, str]], out: Conversion) -> None:
    _add_subjects(topic, name, out)
    plan = topic.text("plan")
    if plan and plan not in plans:
        topic.reject(f"there is no plan {plan}", "give the file with the plans beside the topologies")
    configs = {**plans.get(plan, {}), **topic.configs("config")}
    partitions, replicas = (
        topic.below("config").parse_count(key, configs.pop(key, "-1"))
        for key in ("num.partitions", "replication.factor")
    )
    ref = out.add_topic(topic, name, (partitions, replicas), configs)
    out.describe(ref, topic.mapping("metadata"))


def _add_subjects(topic: Fields, name: str, out: Conversion) -> None:
    """Add the subjects of a topic, by JulieOps' classes `TopicSchemas` and `Subject`."""
    strategy = topic.text("subject.name.strategy", "TopicNameStrategy")
    if strategy not in _STRATEGIES:
        topic.leave_out(f"{quoted(strategy)} is none of {', '.join(_STRATEGIES)}", "schemas")
        return
    schemas = [*topic.list_each("schemas")] if topic.has_list("schemas") else [topic.below("schemas")]
    if len(schemas) > 1 and strategy == "TopicNameStrategy":
        topic.reject_field("schemas", "are several of one name: set subject.name.strategy")
        return
    for schema in schemas:
        for part in ("key", "value"):
            record = schema.name(f"{part}.record.type")
            file, level = f"{part}.schema.file", schema.text(f"{part}.compatibility")
            schema_type = schema.text(f"{part}.format", AVRO)
            if file not in schema:
                schema.ignore(file)
            elif not record and strategy != "TopicNameStrategy":
                schema.leave_out(f"{part}.record.type is missing, which names its subject", file)
            elif (text := schema.read_file(file)) is not None:
                subject = _STRATEGIES[strategy].format(topic=name, part=part, record=record)
                out.add_subject(schema, subject, text, schema_type=schema_type, level=level)


class _User(Value):
    """A consumer or a producer of topics.

    Attributes:
        operation: The operation on its topics.
        rights: Its other rights, if there is a topic.
    """

    fields: Fields
    principal: str
    operation: str
    rights: tuple[Right, ...]

    def add(self, topic: str, out: Conversion) -> None:
        """Add its ACLs for a topic."""
        own: Right = ("topic", topic, "literal", ("Describe", self.operation))
        _add_rights(self.fields, [own, *self.rights], out)


def _list_consumers(owner: Fields) -> list[_User]:
    return [
        _User(
            user,
            user.require("principal"),
            "Read",
            ((*_parse_pattern("group", user.name("group", WILDCARD)), ("Read",)),),
        )
        for user in owner.list_each("consumers")
    ]


def _list_producers(owner: Fields) -> list[_User]:
    users = []
    for user in owner.list_each("producers"):
        rights: list[Right] = []
        if transactional_id := user.name("transactionId"):
            rights.append((*_parse_pattern("transactional-id", transactional_id), ("Describe", "Write")))
        user.flag("idempotence")
        # JulieOps looks only whether `idempotence` is there, and not at its value.
        if transactional_id or user.text("idempotence"):
            rights.append(("cluster", CLUSTER_NAME, "literal", ("IdempotentWrite",)))
        users.append(_User(user, user.require("principal"), "Write", tuple(rights)))
    return users


def _parse_pattern(kind: str, text: str) -> tuple[str, str, str]:
    is_prefix = len(text) > 1 and text.endswith(WILDCARD)
    return (kind, text[:-1], "prefixed") if is_prefix else (kind, text, "literal")


def _convert_platform(platform: Fields, out: Conversion) -> None:
    for quota in platform.below("kafka").list_each("quotas"):
        limits = {name: text for name in _LIMITS if (text := quota.text(name))}
        # The principal is the name of the user as it is: `User:App0`, which no user of Kafka has. An empty
        # one is the default, and JulieOps fails if there is none.
        principal = quota.name("principal") if "principal" in quota else quota.require("principal")
        out.add_quota(quota, {"user": principal or None}, limits)
    for component, (defaults, rights) in _PLATFORM.items():
        section = platform.below(component)
        section.leave_out(_RBAC, "rbac")
        for instance in section.list_each("instances"):
            instance.ignore("owner")
            _add_rights(instance, fill_rights(instance, defaults, rights), out)


def _add_application(
    app: Fields, defaults: Mapping[str, str], rights: Iterable[Right], out: Conversion
) -> None:
    topics = app.below("topics")
    own: list[Right] = [("topic", topic, "literal", ("Read",)) for topic in topics.texts("read")]
    own += [("topic", topic, "literal", ("Write",)) for topic in topics.texts("write")]
    _add_rights(app, [*own, *fill_rights(app, defaults, rights)], out)


def _add_rights(fields: Fields, rights: Iterable[Right], out: Conversion) -> None:
    """Add the ACLs of a user of JulieOps, whose metadata become labels."""
    principal = fields.require("principal")
    for right in rights:
        out.add_right(fields, principal, right)
    out.describe(principal_ref(principal), fields.mapping("metadata"))
