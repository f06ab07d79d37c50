"""jikkou: topics, quotas, subjects, and the authorizations and roles of principals; also lists of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.acls import WILDCARD
from kafkaform.core.values import Value
from kafkaform.core.wording import quoted
from kafkaform.inspect.importers.conversion import Conversion, principal_ref
from kafkaform.inspect.importers.fields import Fields, ScalarReading
from kafkaform.resources.subject.schema import AVRO, SchemaReference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Data
    from kafkaform.core.model import ResourceRef

READING = ScalarReading.TREE
_RESERVED = "jikkou.io/"
"""The part of the names of annotations that jikkou itself reads."""
_SHARED_KINDS = frozenset({"ConfigMap", "KafkaPrincipalRole"})
_NAMED = _SHARED_KINDS | {"KafkaPrincipalAuthorization", "KafkaTopic", "SchemaRegistrySubject"}
_GROUPS = frozenset({"KafkaConsumerGroup", "KafkaShareGroup"})
"""Kinds that say nothing of the topics that a group reads."""
_LIMITS = {
    "producerByteRate": "producer_byte_rate",
    "consumerByteRate": "consumer_byte_rate",
    "requestPercentage": "request_percentage",
}
_ENTITIES: Mapping[str, Mapping[str, str | None]] = {
    "USERS_DEFAULT": {"user": None},
    "USER": {"user": "user"},
    "USER_CLIENT": {"user": "user", "client-id": "clientId"},
    "USER_ALL_CLIENTS": {"user": "user", "client-id": None},
    "CLIENTS_DEFAULT": {"client-id": None},
    "CLIENT": {"client-id": "clientId"},
}
"""For each type of quota, the field with the name of each part of the entity; None for its default."""


def matches(data: Mapping[str, Data]) -> bool:
    """Return whether a document is a resource of jikkou."""
    return "jikkou.io/" in str(data.get("apiVersion"))


class _Resource(Value):
    """A resource of jikkou.

    Attributes:
        is_skipped: Whether jikkou is to delete or ignore it.
    """

    kind: str
    name: str
    fields: Fields
    labels: Mapping[str, str]
    annotations: Fields
    is_skipped: bool


def _is_skipped(annotations: Fields) -> bool:
    """Return whether jikkou is to delete or ignore a resource, or all of a list."""
    return any(_read_flag(annotations, f"{_RESERVED}{name}") for name in ("delete", "ignore"))


def _read_flag(annotations: Fields, name: str) -> bool:
    """Return whether an annotation is true, as `BooleanTypeConverter` and the reader of YAML do."""
    text = annotations.text(name)
    true, false = {"true", "yes", "y"}, {"", "false", "no", "n"}
    if annotations.is_unquoted(name):
        true, false = true | {"on"}, false | {"off"}
    if text.lower() not in true | false:
        annotations.reject_field(name, f"must be true or false, not {quoted(text)}")
    return text.lower() in true


class _Shared:
    """The parts that other resources refer to by name."""

    def __init__(self, resources: Sequence[_Resource]) -> None:
        self.configs = {
            each.name: each.fields.configs("data") for each in resources if each.kind == "ConfigMap"
        }
        self.roles = {
            each.name: [*each.fields.below("spec").list_each("acls")]
            for each in resources
            if each.kind == "KafkaPrincipalRole"
        }
        self.used: set[str] = set()


def convert(documents: Sequence[Fields], out: Conversion) -> None:
    """Convert resources and lists of them."""
    resources = [resource for document in documents for resource in _list_resources(document, out)]
    shared = _Shared(resources)
    for each in resources:
        # jikkou refuses two of a name, which would become one with the rights of both.
        if each.kind in _NAMED and not each.is_skipped:
            out.declare(each.fields, f"{each.kind} {each.name}")
        if each.kind in _SHARED_KINDS:
            continue
        if each.kind == "KafkaUser":
            out.leave_out_credential(each.fields, each.name)
        elif each.kind not in _CONVERTERS:
            reason = "declare it with its topics" if each.kind in _GROUPS else "not managed"
            each.fields.leave_out_all(f"{each.kind} {each.name}".rstrip() + f": {reason}")
        elif each.is_skipped:
            each.fields.leave_out_all(f"{each.kind} {each.name}: jikkou is to delete or ignore it")
        else:
            ref = _CONVERTERS[each.kind](each.fields.below("spec"), each.name, shared, out)
            own = [name for name in each.annotations.untaken if _RESERVED in name]
            each.annotations.leave_out("only jikkou reads it", *own)
            if ref is not None:
                out.describe(ref, each.labels, each.annotations.mapping_of_rest(prose=True))
    for each in resources:
        if each.kind == "KafkaPrincipalRole" and each.name not in shared.used:
            each.fields.skip(f"KafkaPrincipalRole {each.name}: nothing refers to it, so it grants nothing")


def _list_resources(
    document: Fields, out: Conversion, kind: str = "", *, is_skipped: bool = False
) -> Iterator[_Resource]:
    document.ignore("apiVersion", "status")
    kind, metadata = kind or document.text("kind"), document.below("metadata")
    annotations = metadata.below("annotations")
    is_skipped |= _is_skipped(annotations)
    if "items" not in document.names:
        labels = metadata.mapping("labels")
        # Without the name of a provider, a resource is for each of them: `CoreAnnotations.matchesProvider`.
        provider = annotations.text(f"{_RESERVED}provider")
        if not provider or out.takes(document, provider):
            name = metadata.require("name") if kind in _NAMED else metadata.text("name")
            yield _Resource(kind, name, document, labels, annotations, is_skipped)
        return
    for section in (metadata.below("labels"), annotations):
        section.leave_out("only those of each resource are kept", *section.untaken)
    for item in document.list_each("items"):
        item.ignore("kind")
        yield from _list_resources(item, out, kind.removesuffix("List"), is_skipped=is_skipped)


def _add_topic(spec: Fields, name: str, shared: _Shared, out: Conversion) -> ResourceRef:
    configs = spec.configs("configs")
    for reference in spec.texts("configMapRefs"):
        if reference not in shared.configs:
            spec.reject(f"there is no ConfigMap {reference}", "give its file beside the others")
        configs |= shared.configs.get(reference, {})
    return out.add_topic(spec, name, (spec.count("partitions"), spec.count("replicas")), configs)


def _add_authorization(spec: Fields, name: str, shared: _Shared, out: Conversion) -> ResourceRef:
    acls = [*spec.list_each("acls")]
    for role in spec.texts("roles"):
        shared.used.add(role)
        if role not in shared.roles:
            spec.reject(f"there is no KafkaPrincipalRole {role}", "give its file beside the others")
        acls += shared.roles.get(role, [])
    for acl in acls:
        resource = acl.below("resource")
        out.add_acl(
            acl,
            name,
            (resource.text("type"), resource.name("pattern")),
            acl.texts("operations"),
            # MATCH is a regular expression, for which jikkou makes an ACL on each topic that there is.
            pattern=resource.text("patternType", "LITERAL"),
            host=acl.text("host", WILDCARD),
            permission=acl.text("type", "ALLOW"),
        )
    return principal_ref(name)


def _add_quota(spec: Fields, _name: str, _shared: _Shared, out: Conversion) -> ResourceRef | None:
    # Its reader ignores the case of enumerations.
    type_, entity, configs = spec.text("type").upper(), spec.below("entity"), spec.below("configs")
    if type_ not in _ENTITIES:
        spec.reject(f"{quoted(type_)} is not a type of quota", f"types: {', '.join(_ENTITIES)}")
        return None
    parts = {part: None if name is None else entity.require(name) for part, name in _ENTITIES[type_].items()}
    if "" in parts.values():
        return None
    limits = {name: text for key, name in _LIMITS.items() if (text := configs.text(key))}
    return out.add_quota(spec, parts, limits)


def _add_subject(spec: Fields, name: str, _shared: _Shared, out: Conversion) -> ResourceRef | None:
    spec.ignore("schemaRegistry")
    spec.leave_out("modes are not managed", "mode")
    references = [
        SchemaReference(each.require("name"), each.require("subject"), each.count("version"))
        for each in spec.list_each("references")
    ]
    level, schema_type = spec.text("compatibilityLevel"), spec.text("schemaType", AVRO)
    is_file = spec.has_mapping("schema")
    text = spec.below("schema").read_file("$ref") if is_file else spec.text("schema", prose=True)
    if not text:
        if not is_file:
            spec.leave_out_part(f"subject {name}: it has no schema")
        return None
    return out.add_subject(spec, name, text, schema_type=schema_type, references=references, level=level)


_CONVERTERS = {
    "KafkaTopic": _add_topic,
    "KafkaPrincipalAuthorization": _add_authorization,
    "KafkaClientQuota": _add_quota,
    "SchemaRegistrySubject": _add_subject,
}
