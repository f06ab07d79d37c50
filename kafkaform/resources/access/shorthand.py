"""The rights that an Access's spec stands for: what each of its fields means on which resources.

The needs of clients follow from the requests that they send (kafka.apache.org/documentation, "Operations and
resources on protocols"). Read, Write, Delete and Alter include Describe, AlterConfigs includes
DescribeConfigs. Idempotent producers need no right of their own since 2.8 (KIP-679).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from kafkaform.core.acl_fields import is_covered
from kafkaform.core.acls import CLUSTER_NAME, WILDCARD, Acl, ResourceType
from kafkaform.core.apply_result import RECORD_TOPIC
from kafkaform.core.lock import NAME as LOCK
from kafkaform.core.values import Value
from kafkaform.core.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.resources.base import ReadTopics, ReportProblem

Keys: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value in a spec."""

_CLUSTER, _GROUP, _TOPIC = ResourceType.CLUSTER, ResourceType.GROUP, ResourceType.TOPIC
_TRANSACTION = ResourceType.TRANSACTIONAL_ID
_STORAGE = {"config": "connect-configs", "offset": "connect-offsets", "status": "connect-status"}
"""The topics of Connect workers, by their names in Kafka's connect-distributed.properties."""


class ResourceRight(Value):
    """Operations on the resources of one pattern; without hosts, from those of the manifest."""

    resource_type: ResourceType
    name: str
    is_prefix: bool
    operations: tuple[str, ...]
    is_allowed: bool = True
    hosts: tuple[str, ...] = ()

    def list_acls(self, principal: str, hosts: Sequence[str]) -> Iterator[Acl]:
        """Yield the ACLs of a principal, from the hosts of the manifest if the right has none."""
        for host in self.hosts or hosts:
            for operation in self.operations:
                yield Acl(
                    self.resource_type, self.name, self.is_prefix, principal, host, operation, self.is_allowed
                )


def _allow(resource_type: ResourceType, given: object, *operations: str) -> ResourceRight:
    """Return a right on a name, or on `{prefix: ...}`."""
    is_prefix = isinstance(given, dict)
    name = cast("dict[str, str]", given)["prefix"] if is_prefix else cast("str", given)
    return ResourceRight(resource_type, name, is_prefix, operations)


def list_rights(
    spec: Mapping[str, Any], topics_of: ReadTopics, report: ReportProblem
) -> Iterator[tuple[ResourceRight, Keys]]:
    """Yield the rights of a normalised spec, each with the keys of the value that gives it.

    Args:
        topics_of: Returns the topics that a declared group reads.
        report: Reports a problem of the spec.
    """
    for number, topic in enumerate(spec.get("produces", ())):
        yield _allow(_TOPIC, topic, "Write"), ("produces", number)
    # Members of a share group send other requests, which need the same rights (KIP-932).
    for field in ("consumes", "shareGroups"):
        for number, entry in enumerate(spec.get(field, ())):
            topics = entry.get("topics")
            yield from _list_group_rights(
                entry["group"], topics, "topics", (field, number), topics_of, report
            )
    for number, transactional_id in enumerate(spec.get("transactional", ())):
        yield _allow(_TRANSACTION, transactional_id, "Write"), ("transactional", number)
    if "streams" in spec:
        yield from _list_streams_rights(spec["streams"], topics_of, report)
    if "connect" in spec:
        for right in _list_connect_rights(spec["connect"]):
            yield right, ("connect",)
    account, managed = spec.get("kafkaform"), spec.get("manages")
    if managed is not None and account != "apply":
        report(("manages",), "has no meaning without kafkaform: apply", "remove it", key=True)
    elif account is not None:
        for right in list_own_rights(account, [WILDCARD] if managed is None else managed):
            yield right, ("kafkaform",)
    for number, entry in enumerate(spec.get("acls", ())):
        yield _parse_acl(entry), ("acls", number)


def _list_group_rights(
    group: object,
    topics: Sequence[object] | None,
    field: str,
    keys: Keys,
    topics_of: ReadTopics,
    report: ReportProblem,
) -> Iterator[tuple[ResourceRight, Keys]]:
    """Yield the rights of a member of a group; without topics, on those of the manifest of the group."""
    yield _allow(_GROUP, group, "Read"), keys
    if topics is None and isinstance(group, str):
        topics = topics_of(group)
    if topics is None:
        name = quoted(group) if isinstance(group, str) else "a prefix of groups"
        hint = f"write {field}: beside it, or a ConsumerGroup manifest with its topics"
        report(keys, f"the topics of {name} are not declared", hint)
    for topic in topics or ():
        yield _allow(_TOPIC, topic, "Read"), keys


def _list_streams_rights(
    entry: Mapping[str, Any], topics_of: ReadTopics, report: ReportProblem
) -> Iterator[tuple[ResourceRight, Keys]]:
    """Yield the rights of a Kafka Streams application, of either protocol (KIP-1071)."""
    keys: Keys = ("streams",)
    application, reads = entry["applicationId"], entry.get("reads")
    yield from _list_group_rights(application, reads, "reads", keys, topics_of, report)
    for topic in entry.get("writes", ()):
        yield _allow(_TOPIC, topic, "Write"), keys
    own = {"prefix": f"{application}-"}
    # Delete is for DeleteRecords, by which it trims its repartition topics.
    yield _allow(_TOPIC, own, "Create", "Delete", "Read", "Write"), keys
    yield _allow(_TRANSACTION, own, "Write"), keys


def _list_connect_rights(entry: Mapping[str, Any]) -> Iterator[ResourceRight]:
    """Yield the rights of a Connect worker and its connectors, exactly-once sources (KIP-618) included."""
    group = entry["groupId"]
    yield _allow(_GROUP, group, "Read")
    for topic in (_STORAGE | entry.get("storage", {})).values():
        # DescribeConfigs is for its check that the topics are compacted.
        yield _allow(_TOPIC, topic, "Create", "DescribeConfigs", "Read", "Write")
    # The groups of its sinks, the transactional ids of the leader, and those of its sources.
    yield _allow(_GROUP, {"prefix": "connect-"}, "Read")
    yield _allow(_TRANSACTION, f"connect-cluster-{group}", "Write")
    yield _allow(_TRANSACTION, {"prefix": f"{group}-"}, "Write")
    for topic in entry.get("reads", ()):
        yield _allow(_TOPIC, topic, "Read")
    for topic in entry.get("writes", ()):
        yield _allow(_TOPIC, topic, "Write")


def list_own_rights(account: str, managed: Sequence[object]) -> list[ResourceRight]:
    """Return the rights of one of kafkaform's own accounts, each with one operation.

    Args:
        account: `plan`, which reads everything, or `apply`, which also changes what it manages.
        managed: The names and prefixes of the topics and groups that `apply` changes.
    """
    read = ("Describe", "DescribeConfigs")
    rights = [
        _allow(_CLUSTER, CLUSTER_NAME, *read),
        _allow(_TOPIC, WILDCARD, *read),
        _allow(_GROUP, WILDCARD, *read),
        _allow(_TOPIC, RECORD_TOPIC, "Read"),
    ]
    if account == "apply":
        rights = [
            *rights,
            _allow(_CLUSTER, CLUSTER_NAME, "Alter", "AlterConfigs"),
            *(_allow(_TOPIC, name, "Create", "Alter", "AlterConfigs", "Delete", "Read") for name in managed),
            *(_allow(_GROUP, name, "AlterConfigs", "Delete", "Read") for name in managed),
            _allow(_TOPIC, LOCK, "Create", "Read"),
            _allow(_GROUP, LOCK, "Read"),
            _allow(_TOPIC, RECORD_TOPIC, "Create", "Write"),
        ]
    acls = [acl for right in rights for acl in right.list_acls("", (WILDCARD,))]
    # With `*`, what it manages includes its other rights.
    return [
        ResourceRight(acl.resource_type, acl.name, acl.is_prefix, (acl.operation,))
        for acl in acls
        if not is_covered(acl, acls)
    ]


def _parse_acl(entry: Mapping[str, Any]) -> ResourceRight:
    resource_type = ResourceType(entry["resource"])
    is_cluster = resource_type is _CLUSTER
    return ResourceRight(
        resource_type,
        CLUSTER_NAME if is_cluster else entry.get("prefix", entry.get("name", "")),
        not is_cluster and "prefix" in entry,
        tuple(entry["operations"]),
        entry.get("permission", "allow") == "allow",
        tuple(entry.get("hosts", ())),
    )
