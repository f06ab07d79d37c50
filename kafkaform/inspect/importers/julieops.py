"""JulieOps: topologies, and the plans that their topics refer to.

Names of topics and ACLs are those of its default settings, by its classes `ProjectImpl`, `Topic`,
`AccessControlManager` and `AclsBindingsBuilder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.acls import CLUSTER_NAME, WILDCARD
from kafkaform.core.lazy_dataclass import dataclass
from kafkaform.inspect.importers.conversion import principal_ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Data
    from kafkaform.inspect.importers.conversion import Conversion, Right
    from kafkaform.inspect.importers.fields import Fields

_NAMELESS = ("context", "platform", "projects", "special_topics")
"""The fields of a topology that are no part of the names of its topics, except that `context` comes first."""
_LIMITS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
_RBAC = "roles of Confluent's RBAC are not ACLs"


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
            plans[name] = plan.mapping("config")
    for document in documents:
        if "context" not in document:
            continue
        names = ("context", *(name for name in document.names if name not in _NAMELESS))
        prefix = "".join(f"{document.text(name)}." for name in names)
        for project in document.list_each("projects"):
            _Project(project, f"{prefix}{project.text('name')}.", plans, out).convert()
        for topic in document.list_each("special_topics"):
            _add_topic(topic, topic.text("name"), plans, out)
            topic.ignore("dataType")
            for right in (*_list_consumers(topic), *_list_producers(topic)):
                right.add(topic.text("name"), out)
        _convert_platform(document.below("platform"), out)


@dataclass(frozen=True, slots=True)
class _Project:
    """A project of a topology.

    Attributes:
        fields: Its declaration.
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
            data_type = topic.text("dataType")
            name = f"{self.prefix}{topic.text('name')}{data_type and f'.{data_type}'}"
            _add_topic(topic, name, self.plans, self.out)
            # Of several producers with one principal, JulieOps takes the first.
            chosen = {user.principal: user for user in reversed([*_list_producers(topic), *producers])}
            for user in (*_list_consumers(topic), *consumers, *chosen.values()):
                user.add(name, self.out)
        for app in self.fields.list_each("streams"):
            prefix = app.text("applicationId", self.prefix)
            rights: list[Right] = [
                ("topic", prefix, "prefixed", ("All",)),
                ("group", prefix, "prefixed", ("Read",)),
            ]
            if app.flag("exactlyOnce"):
                rights.append(("transactional-id", prefix, "prefixed", ("Write", "Describe")))
            _add_rights(app, [*_list_topic_rights(app), *rights], self.out)
        for app in self._list_applications("ksql"):
            app.ignore("ksqlDbId")
            prefix = app.text("applicationId", self.prefix)
            rights = [(kind, prefix, "prefixed", ("All",)) for kind in ("topic", "group")]
            _add_rights(app, [*_list_topic_rights(app), *rights], self.out)
        for connector in self._list_applications("connectors"):
            connector.leave_out(_RBAC, "connectors", "cluster_id")
            _add_rights(connector, _list_connector_rights(connector), self.out)
        self.fields.leave_out("schemas are not managed", "schemas")
        self.fields.leave_out(_RBAC, "rbac")
        self.fields.leave_out("write the ACLs of a custom role by hand", *self.fields.untaken)

    def _list_applications(self, name: str) -> Iterator[Fields]:
        """List applications, which may be beside the files of their queries or connectors."""
        if self.fields.has_list(name):
            return self.fields.list_each(name)
        section = self.fields.below(name)
        section.leave_out("queries and connectors are not managed", "artefacts", "artifacts")
        return section.list_each("access_control")


def _add_topic(topic: Fields, name: str, plans: Mapping[str, Mapping[str, str]], out: Conversion) -> None:
    topic.leave_out("schemas are not managed", "schemas", "subject.name.strategy")
    plan = topic.text("plan")
    if plan and plan not in plans:
        topic.reject(f"there is no plan {plan}", "give the file with the plans beside the topologies")
    configs = {**plans.get(plan, {}), **topic.mapping("config")}
    partitions, replicas = (
        topic.parse_count("config", configs.pop(key, "-1"))
        for key in ("num.partitions", "replication.factor")
    )
    ref = out.add_topic(topic, name, (partitions, replicas), configs)
    out.describe(ref, topic.mapping("metadata"))


@dataclass(frozen=True, slots=True)
class _User:
    """A consumer or a producer of topics.

    Attributes:
        fields: Its declaration.
        principal: Its principal.
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
            user.text("principal"),
            "Read",
            ((*_parse_pattern("group", user.text("group", WILDCARD)), ("Read",)),),
        )
        for user in owner.list_each("consumers")
    ]


def _list_producers(owner: Fields) -> list[_User]:
    users = []
    for user in owner.list_each("producers"):
        rights: list[Right] = []
        if transactional_id := user.text("transactionId"):
            rights.append((*_parse_pattern("transactional-id", transactional_id), ("Describe", "Write")))
        # JulieOps looks only whether `idempotence` is there, and not at its value.
        if transactional_id or "idempotence" in user:
            rights.append(("cluster", CLUSTER_NAME, "literal", ("IdempotentWrite",)))
        user.ignore("idempotence")
        users.append(_User(user, user.text("principal"), "Write", tuple(rights)))
    return users


def _parse_pattern(kind: str, text: str) -> tuple[str, str, str]:
    is_prefix = len(text) > 1 and text.endswith(WILDCARD)
    return (kind, text[:-1], "prefixed") if is_prefix else (kind, text, "literal")


def _list_topic_rights(app: Fields) -> Iterator[Right]:
    topics = app.below("topics")
    yield from (("topic", topic, "literal", ("Read",)) for topic in topics.texts("read"))
    yield from (("topic", topic, "literal", ("Write",)) for topic in topics.texts("write"))


def _list_connector_rights(connector: Fields) -> Iterator[Right]:
    for kind in ("status", "offset", "configs"):
        topic = connector.text(f"{kind}_topic", "connect-offsets" if kind == "offset" else f"connect-{kind}")
        yield "topic", topic, "literal", ("Read", "Write")
    yield "cluster", CLUSTER_NAME, "literal", ("Create",)
    yield "group", connector.text("group", "connect-cluster"), "literal", ("Read",)
    yield from _list_topic_rights(connector)


def _convert_platform(platform: Fields, out: Conversion) -> None:
    kafka = platform.below("kafka")
    for quota in kafka.list_each("quotas"):
        limits = {name: text for name in _LIMITS if (text := quota.text(name))}
        # The principal is the name of the user as it is: `User:App0`, which no user of Kafka has.
        out.add_quota(quota, {"user": quota.text("principal") or None}, limits)
    kafka.ignore("instances")
    for component in ("kafka", "kafka_connect", "schema_registry", "control_center", "ksql"):
        section = kafka if component == "kafka" else platform.below(component)
        section.leave_out(_RBAC, "rbac")
        for instance in section.list_each("instances") if component in _PLATFORM_RIGHTS else ():
            _add_rights(instance, _PLATFORM_RIGHTS[component](instance), out)


def _list_registry_rights(instance: Fields) -> Iterator[Right]:
    operations = ("Create", "DescribeConfigs", "Describe", "Write", "Read")
    yield "topic", instance.text("topic", "_schemas"), "literal", operations
    offsets = instance.text("consumer_offsets_topic", "__consumer_offsets")
    yield "topic", offsets, "literal", ("Describe",)
    yield "group", instance.text("group", "schema-registry"), "literal", ("Read",)


def _list_control_center_rights(instance: Fields) -> Iterator[Right]:
    app = instance.text("appId")
    operations = ("Write", "Read", "Create", "Describe")
    yield "group", app, "prefixed", ("Read",)
    yield "group", f"{app}-command", "prefixed", ("Read",)
    yield "group", WILDCARD, "literal", ("Describe",)
    for topic in ("monitoring", "command", "metrics"):
        yield "topic", f"_confluent-{topic}", "literal", operations
    yield "topic", "_confluent-controlcenter", "prefixed", operations
    yield "topic", WILDCARD, "literal", ("Create",)
    yield "cluster", CLUSTER_NAME, "literal", ("Describe", "DescribeConfigs")


def _list_ksql_rights(instance: Fields) -> Iterator[Right]:
    server = instance.text("ksqlDbId")
    instance.ignore("owner")
    yield "cluster", CLUSTER_NAME, "literal", ("DescribeConfigs",)
    yield "topic", f"_confluent-ksql-{server}", "prefixed", ("All",)
    yield "topic", f"{server}ksql_processing_log", "literal", ("All",)
    yield "group", f"_confluent-ksql-{server}", "prefixed", ("All",)


_PLATFORM_RIGHTS = {
    "schema_registry": _list_registry_rights,
    "control_center": _list_control_center_rights,
    "ksql": _list_ksql_rights,
}


def _add_rights(fields: Fields, rights: Iterable[Right], out: Conversion) -> None:
    """Add the ACLs of a user of JulieOps, whose metadata become labels."""
    principal = fields.text("principal")
    for right in rights:
        out.add_right(fields, principal, right)
    out.describe(principal_ref(principal), fields.mapping("metadata"))
