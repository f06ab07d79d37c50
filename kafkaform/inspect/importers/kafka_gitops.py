"""kafka-gitops: a state file, and the files that its settings name.

The ACLs of each type of service, and of each role of a user, are those of its classes `ApplicationService`,
`KafkaConnectService`, `KafkaConnectorDetails`, `KafkaStreamsService` and `RoleService`. Its forks by
chenrui333 and joschi have the same.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from kafkaform.core.acls import CLUSTER_NAME, WILDCARD
from kafkaform.core.values import Value
from kafkaform.inspect.importers.conversion import Conversion, Right, fill_rights, principal_ref
from kafkaform.inspect.importers.fields import Fields, ScalarReading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Data

READING = ScalarReading.SOURCE
_KEYS = {"customServiceAcls", "customUserAcls", "schemas", "services", "settings", "topics", "users"}
_TYPES = ("application", "kafka-connect", "kafka-streams")
_TOPIC_LISTS = ("blacklist", "exclude", "include", "whitelist")
_CONNECT: tuple[Right, ...] = (("group", "{group-id}", "literal", ("Read",)),)
_STORAGE = {"config": "s", "offset": "s", "status": ""}
"""The storage topics of a Connect cluster, and the ending in their default names: `connect-configs-NAME`."""
_CONNECT_STORAGE: tuple[Right, ...] = tuple(
    ("topic", f"{{{kind}}}", "literal", ("Read", "Write")) for kind in _STORAGE
)
_STREAMS: tuple[Right, ...] = (
    (
        "topic",
        "{application-id}",
        "prefixed",
        ("Read", "Write", "Describe", "Delete", "Create", "Alter", "AlterConfigs", "DescribeConfigs"),
    ),
    ("group", "{application-id}", "literal", ("Read", "Describe", "Delete")),
    ("cluster", CLUSTER_NAME, "literal", ("DescribeConfigs",)),
)
_ROLES: Mapping[str, tuple[Right, ...]] = {
    "reader": (("topic", WILDCARD, "literal", ("Read",)), ("group", WILDCARD, "literal", ("Read",))),
    "writer": (("topic", WILDCARD, "literal", ("Write",)),),
    "operator": (
        ("cluster", CLUSTER_NAME, "literal", ("Describe",)),
        ("topic", WILDCARD, "literal", ("Describe", "DescribeConfigs")),
        ("group", WILDCARD, "literal", ("Read", "Describe")),
    ),
}


def matches(data: Mapping[str, Data]) -> bool:
    """Return whether a document is a state file, or a part of one."""
    return bool(data) and data.keys() <= _KEYS


def convert(documents: Sequence[Fields], out: Conversion) -> None:
    """Convert a state, which several files may be parts of."""
    settings = _Settings(documents, out)
    customs: list[dict[str, list[Fields]]] = [{}, {}]
    for document in documents:
        for section, custom in zip(("customServiceAcls", "customUserAcls"), customs, strict=True):
            for name, acls in document.list_named(section):
                custom.setdefault(name, []).append(acls)
                for acl_name, acl in acls.list_children():
                    out.declare(acl, f"the ACL {acl_name} of {name} in {section}")
    for document in documents:
        document.leave_out("schemas are not managed", "schemas")
        for name, topic in document.list_named("topics"):
            counts = (
                topic.count("partitions", settings.partitions),
                topic.count("replication", settings.replication),
            )
            out.add_topic(topic, name, counts, topic.configs("configs"))
        for name, service in document.list_named("services"):
            owner = _Owner(out, service, name, "service", settings, customs[0].pop(name, ()))
            owner.add(_list_service_rights(service, name, settings))
        for name, user in document.list_named("users"):
            owner = _Owner(out, user, name, "user", settings, customs[1].pop(name, ()))
            owner.add(_list_role_rights(user, name))
    for custom in customs:
        for name, acls in ((name, acls) for name, parts in custom.items() for acls in parts):
            acls.leave_out_all(f"{name} is not declared, so that kafka-gitops does not create its ACLs")


class _Settings:
    """The settings of a state, from all of its files."""

    def __init__(self, documents: Sequence[Fields], out: Conversion) -> None:
        self.in_cloud = self.describes = False
        self.partitions: int | None = None
        self.replication: int | None = None
        given = {PurePath(document.location.file).name for document in documents}
        for settings in (document.below("settings") for document in documents if "settings" in document):
            # Two states are of two clusters; kafka-gitops ignores the settings of the parts of one.
            out.declare(settings, "settings")
            settings.leave_out("schemas are not managed", "schemaRegistry")
            files, topics = settings.below("files"), settings.below("topics")
            for name in files.names:
                if PurePath(files.text(name)).name not in given:
                    files.leave_out("not read: give this file beside the others", name)
            topics.leave_out("nothing is deleted without --prune: see owns: of kafkaform.yaml", *_TOPIC_LISTS)
            defaults = topics.below("defaults")
            self.partitions = defaults.count("partitions", self.partitions)
            self.replication = defaults.count("replication", self.replication)
            self.in_cloud |= settings.below("ccloud").flag("enabled")
            self.describes |= settings.below("services").below("acls").flag("describeTopicEnabled")


class _Owner(Value):
    """A service or a user, and its principal.

    Attributes:
        out: Gets its ACLs.
        noun: The word for it.
        settings: The settings of the state.
    """

    out: Conversion
    fields: Fields
    name: str
    noun: str
    settings: _Settings
    custom: Sequence[Fields]

    def add(self, rights: Iterable[Right]) -> None:
        """Add the ACLs of its rights, and its custom ones."""
        # In two files, it would get the rights of both.
        self.out.declare(self.fields, f"the {self.noun} {self.name}")
        principal = self.fields.name("principal")
        rights = [*rights]
        if self.settings.in_cloud:
            self._leave_out("its principal is the id of a service account, which only Confluent Cloud has")
            return
        if rights and not principal:
            self._leave_out("it has no principal")
            return
        for right in rights:
            self.out.add_right(self.fields, principal, right)
        if principal:
            self.out.describe(principal_ref(principal), {}, {self.noun: self.name})
        for _, acl in (each for acls in self.custom for each in acls.list_children()):
            # A user's custom ACL has the user's principal by default; a service's must have its own.
            self.out.add_acl(
                acl,
                acl.text("principal", principal if self.noun == "user" else ""),
                (acl.text("type"), acl.name("name")),
                [acl.text("operation")],
                pattern=acl.text("pattern"),
                host=acl.text("host", WILDCARD),
                permission=acl.text("permission", "ALLOW"),
            )

    def _leave_out(self, reason: str) -> None:
        for fields in (self.fields, *self.custom):
            fields.leave_out_all(f"the ACLs of the {self.noun} {self.name}: {reason}")


def _list_role_rights(user: Fields, name: str) -> Iterator[Right]:
    for role in user.texts("roles"):
        if role.lower() not in _ROLES:
            user.leave_out_part(f"the user {name}: kafka-gitops has no role {role}")
        yield from _ROLES.get(role.lower(), ())


def _list_service_rights(service: Fields, name: str, settings: _Settings) -> Iterator[Right]:
    type_ = service.text("type")
    if type_ not in _TYPES:
        reason = f"kafka-gitops has no type {type_}" if type_ else "it has no type"
        service.leave_out_all(f"the service {name}: {reason}")
        return
    produces, consumes = service.texts("produces"), service.texts("consumes")
    yield from _list_topic_rights(produces, consumes, settings)
    match type_:
        case "application":
            if consumes:
                yield "group", service.name("group-id", name), "literal", ("Read",)
        case "kafka-connect":
            yield from fill_rights(service, {"group-id": name}, _CONNECT)
            storage = {kind: f"connect-{kind}{ending}-{name}" for kind, ending in _STORAGE.items()}
            yield from fill_rights(service.below("storage-topics"), storage, _CONNECT_STORAGE)
            for connector, fields in service.list_named("connectors"):
                sinks = fields.texts("consumes")
                yield from _list_topic_rights(fields.texts("produces"), sinks, settings)
                if sinks:
                    yield "group", f"connect-{connector}", "literal", ("Read",)
        case _:
            yield from fill_rights(service, {"application-id": name}, _STREAMS)


def _list_topic_rights(
    produces: Sequence[str], consumes: Sequence[str], settings: _Settings
) -> Iterator[Right]:
    yield from (("topic", topic, "literal", ("Write",)) for topic in produces)
    yield from (("topic", topic, "literal", ("Read",)) for topic in consumes)
    if settings.describes:
        yield from (("topic", topic, "literal", ("Describe",)) for topic in (*produces, *consumes))
