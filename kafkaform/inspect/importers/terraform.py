"""Terraform: the resources of Mongey's and Confluent's providers, from `terraform show -json`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Data
    from kafkaform.inspect.importers.conversion import Conversion
    from kafkaform.inspect.importers.fields import Fields

_CLOUD_REPLICAS = 3
"""Confluent Cloud has three replicas of each partition, and no setting for it."""
_CONNECTION = ("credentials", "http_endpoint", "id", "kafka_cluster", "rest_endpoint", "timeouts")
"""The attributes by which the providers find a resource and its cluster; one has a secret."""


def matches(data: Mapping[str, Data]) -> bool:
    """Return whether a document is the output of `terraform show -json`, of a state or a plan."""
    return "format_version" in data and not data.keys().isdisjoint(("planned_values", "values"))


def convert(documents: Sequence[Fields], out: Conversion) -> None:
    """Convert the managed resources of all modules."""
    for document in documents:
        # Of a plan: the values after it.
        values = document.below("planned_values" if "planned_values" in document else "values")
        document.ignore(*document.untaken)
        values.ignore("outputs")
        unconverted: Counter[str] = Counter()
        for resource in _list_resources(values.below("root_module")):
            # The names and versions of the provider, and dependencies.
            resource.ignore(*resource.untaken)
            type_ = resource.text("type")
            if resource.text("mode") == "data":
                continue
            if type_ in _CONVERTERS:
                attributes = resource.below("values")
                attributes.ignore(*_CONNECTION)
                _CONVERTERS[type_](attributes, out)
            else:
                unconverted[type_] += 1
        for type_, count in unconverted.items():
            values.leave_out_part(f"{counted(count, 'resource')} of the type {type_}: not managed")


def _list_resources(module: Fields) -> Iterator[Fields]:
    module.ignore("address")
    yield from module.list_each("resources")
    for child in module.list_each("child_modules"):
        yield from _list_resources(child)


def _add_topic(topic: Fields, out: Conversion) -> None:
    counts = topic.count("partitions"), topic.count("replication_factor")
    out.add_topic(topic, topic.text("name"), counts, topic.mapping("config"))


def _add_cloud_topic(topic: Fields, out: Conversion) -> None:
    counts = topic.count("partitions_count"), _CLOUD_REPLICAS
    out.add_topic(topic, topic.text("topic_name"), counts, topic.mapping("config"))


def _add_acl(acl: Fields, out: Conversion) -> None:
    out.add_acl(
        acl,
        acl.text("acl_principal"),
        (acl.text("resource_type"), acl.text("resource_name")),
        [acl.text("acl_operation")],
        pattern=acl.text("resource_pattern_type_filter", "Literal"),
        host=acl.text("acl_host"),
        permission=acl.text("acl_permission_type"),
    )


def _add_cloud_acl(acl: Fields, out: Conversion) -> None:
    out.add_acl(
        acl,
        acl.text("principal"),
        (acl.text("resource_type"), acl.text("resource_name")),
        [acl.text("operation")],
        pattern=acl.text("pattern_type"),
        host=acl.text("host"),
        permission=acl.text("permission"),
    )


def _add_quota(quota: Fields, out: Conversion) -> None:
    # Without a name, it is the default of the type.
    parts = {quota.text("entity_type"): quota.text("entity_name") or None}
    out.add_quota(quota, parts, quota.mapping("config"))


def _leave_out_credential(credential: Fields, out: Conversion) -> None:
    out.leave_out_credential(credential, credential.text("username"))


_CONVERTERS = {
    "kafka_topic": _add_topic,
    "kafka_acl": _add_acl,
    "kafka_quota": _add_quota,
    "kafka_user_scram_credential": _leave_out_credential,
    "confluent_kafka_topic": _add_cloud_topic,
    "confluent_kafka_acl": _add_cloud_acl,
}
