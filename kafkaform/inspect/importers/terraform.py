"""Terraform: the resources of Mongey's and Confluent's providers, from `terraform show -json`."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from kafkaform.core.wording import counted, listed, quoted
from kafkaform.inspect.importers.fields import Fields, ScalarReading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Data
    from kafkaform.inspect.importers.conversion import Conversion

READING = ScalarReading.SOURCE
_CLOUD_REPLICAS = 3
"""Confluent Cloud has three replicas of each partition, and no setting for it."""
_INDEX = re.compile(r"\[[^\]]*\]")
"""Matches the key of a resource or a module that there are several of."""
_CONNECTION = ("credentials", "http_endpoint", "id", "kafka_cluster", "rest_endpoint", "timeouts")
"""The attributes by which the providers find a resource and its cluster; one has a secret."""


def matches(data: Mapping[str, Data]) -> bool:
    """Return whether a document is the output of `terraform show -json`, of a state or a plan."""
    return "format_version" in data and not data.keys().isdisjoint(("planned_values", "values"))


def convert(documents: Sequence[Fields], out: Conversion) -> None:
    """Convert the managed resources of all modules."""
    for document in documents:
        plan = _Plan(document)
        # Of a plan: the values after it.
        values = document.below("planned_values" if "planned_values" in document else "values")
        if document.text("errored") == "true" or document.text("complete") == "false":
            document.leave_out_part("Terraform could not finish this plan: resources may be missing")
        document.ignore(*document.untaken)
        values.ignore("outputs")
        unconverted: Counter[str] = Counter()
        for module, resource in _list_resources(values.below("root_module"), ()):
            # The names and versions of the provider, and dependencies.
            resource.ignore(*resource.untaken)
            type_ = resource.text("type")
            # A deposed object is a former one, which the next apply destroys.
            if resource.text("mode") == "data" or "deposed_key" in resource:
                continue
            if type_ in _CONVERTERS:
                plan.convert(resource, (*module, f"{type_}.{resource.text('name')}"), out)
            else:
                unconverted[type_] += 1
        for type_, count in unconverted.items():
            values.leave_out_part(f"{counted(count, 'resource')} of the type {type_}: not managed")


def _list_resources(module: Fields, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Fields]]:
    """Yield the resources of a module and those below it, with the names of the modules above each."""
    address = module.text("address")
    # `module.a["x"].module.b[0]`: the last name, without its index.
    own = (*path, _INDEX.sub("", address).rpartition(".")[2]) if address else path
    for resource in module.list_each("resources"):
        yield own, resource
    for child in module.list_each("child_modules"):
        yield from _list_resources(child, own)


class _Plan:
    """The parts of a plan beside the values after it: unknown values and providers; a state has none."""

    def __init__(self, document: Fields) -> None:
        data: Any = document.document.data
        changes = data.get("resource_changes") or ()
        self._unknown = {
            each.get("address"): (each.get("change") or {}).get("after_unknown") for each in changes
        }
        self._declared: dict[tuple[str, ...], dict[str, Any]] = {}
        self._read_module((data.get("configuration") or {}).get("root_module") or {}, ())

    def convert(self, resource: Fields, path: tuple[str, ...], out: Conversion) -> None:
        """Convert a resource, unless it is of another cluster, or a value is known only after an apply."""
        type_, declared = resource.text("type"), self._declared.get(path)
        attributes = resource.below("values")
        attributes.ignore(*_CONNECTION)
        clusters = [each.text("id") for each in attributes.list_each("kafka_cluster")]
        provider = str(declared.get("provider_config_key", "")) if declared is not None else ""
        if not out.takes(resource, next(filter(None, clusters), "") or provider):
            return
        unknown = self._unknown.get(resource.text("address"))
        # Of a resource that is unknown as a whole, the values that it needs are missing.
        fields = unknown if isinstance(unknown, dict) else {}
        late = {name for name, value in fields.items() if _is_unknown(value)}
        if declared is not None:
            # The others are for the provider to compute.
            late &= declared.get("expressions", {}).keys()
        # Terraform writes null where there is no value: what is missing is unknown.
        late |= {name for name in _NEEDED[type_] if name not in attributes.names}
        if late := late.difference(_CONNECTION):
            address = resource.text("address") or path[-1]
            resource.leave_out_all(f"{address}: {listed(sorted(late))} is known only after an apply")
        else:
            _CONVERTERS[type_](attributes, out)

    def _read_module(self, module: Any, path: tuple[str, ...]) -> None:
        for resource in module.get("resources") or ():
            self._declared[*path, f"{resource.get('type')}.{resource.get('name')}"] = resource
        for name, call in (module.get("module_calls") or {}).items():
            self._read_module(call.get("module") or {}, (*path, name))


def _is_unknown(value: Any) -> bool:
    """Return whether a value of `after_unknown` is true, or has a true one below it."""
    match value:
        case dict():
            return any(map(_is_unknown, value.values()))
        case list():
            return any(map(_is_unknown, value))
        case _:
            return str(value) == "true"


def _add_topic(topic: Fields, out: Conversion) -> None:
    counts = topic.count("partitions"), topic.count("replication_factor")
    out.add_topic(topic, topic.require("name"), counts, topic.configs("config"))


def _add_cloud_topic(topic: Fields, out: Conversion) -> None:
    counts = topic.count("partitions_count"), _CLOUD_REPLICAS
    out.add_topic(topic, topic.require("topic_name"), counts, topic.configs("config"))


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
    parts = {quota.text("entity_type"): quota.name("entity_name") or None}
    out.add_quota(quota, parts, quota.configs("config"))


def _add_composite_quota(quota: Fields, out: Conversion) -> None:
    entities: dict[str, str | None] = {}
    for each in quota.list_each("entity"):
        type_ = each.text("type")
        if type_ in entities:
            each.reject(f"the quota has two names of the type {quoted(type_)}")
        entities[type_] = each.name("name") or None
    out.add_quota(quota, entities, quota.configs("config"))


def _leave_out_credential(credential: Fields, out: Conversion) -> None:
    out.leave_out_credential(credential, credential.text("username"))


_CONVERTERS = {
    "kafka_topic": _add_topic,
    "kafka_acl": _add_acl,
    "kafka_quota": _add_quota,
    "kafka_quota_composite": _add_composite_quota,
    "kafka_user_scram_credential": _leave_out_credential,
    "confluent_kafka_topic": _add_cloud_topic,
    "confluent_kafka_acl": _add_cloud_acl,
}
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "kafka_topic": ("name",),
    "kafka_acl": ("resource_name", "acl_principal"),
    # Without a name, a quota is the default of its type.
    "kafka_quota": ("entity_type", "entity_name"),
    "kafka_quota_composite": ("entity",),
    "kafka_user_scram_credential": (),
    "confluent_kafka_topic": ("topic_name",),
    "confluent_kafka_acl": ("resource_name", "principal"),
}
"""The attributes without which a resource means another one, or none."""
