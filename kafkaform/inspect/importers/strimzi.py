"""Strimzi: KafkaTopic and KafkaUser, also in a list as `kubectl get -o yaml` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.acls import CLUSTER_NAME, WILDCARD
from kafkaform.core.wording import quoted
from kafkaform.inspect.importers.conversion import Conversion, principal_ref
from kafkaform.inspect.importers.fields import Fields, ScalarReading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Data

READING = ScalarReading.JSON
_PREFIX = "kafka.strimzi.io/"
_BOOKKEEPING = (
    "creationTimestamp", "finalizers", "generation", "managedFields", "namespace", "ownerReferences",
    "resourceVersion", "selfLink", "uid",
)  # fmt: skip
"""The fields of `metadata` that Kubernetes writes, or that say where the resource is."""
_LIMITS = {
    "producerByteRate": "producer_byte_rate",
    "consumerByteRate": "consumer_byte_rate",
    "requestPercentage": "request_percentage",
    "controllerMutationRate": "controller_mutation_rate",
}


def matches(data: Mapping[str, Data]) -> bool:
    """Return whether a document is a resource of Strimzi, or a list with one."""
    items = data.get("items")
    if isinstance(items, list):
        return any(isinstance(each, dict) and matches(each) for each in items)
    return str(data.get("apiVersion")).startswith(_PREFIX)


def convert(documents: Sequence[Fields], out: Conversion) -> None:
    """Convert topics and users."""
    for document in documents:
        for resource in _list_resources(document):
            _add(resource, out)


def _list_resources(document: Fields) -> Iterator[Fields]:
    if "items" not in document.names:
        yield document
        return
    document.ignore("apiVersion", "kind", "metadata")
    for item in document.list_each("items"):
        yield from _list_resources(item)


def _add(resource: Fields, out: Conversion) -> None:
    if not resource.text("apiVersion").startswith(_PREFIX):
        resource.skip(f"{resource.text('kind')}: no resource of Strimzi")
        return
    resource.ignore("status")
    kind, metadata, spec = resource.text("kind"), resource.below("metadata"), resource.below("spec")
    metadata.ignore(*_BOOKKEEPING)
    labels, annotations = metadata.mapping("labels"), metadata.below("annotations")
    if kind not in {"KafkaTopic", "KafkaUser"}:
        resource.leave_out_all(f"{kind} {metadata.text('name')}: not managed")
        return
    if not out.takes(resource, labels.get("strimzi.io/cluster", ""), metadata.text("namespace")):
        return
    name = metadata.require("name")
    if "deletionTimestamp" in metadata:
        resource.leave_out_all(f"{kind} {name}: Kubernetes is deleting it (deletionTimestamp)")
        return
    if kind == "KafkaUser":
        # Kubernetes would keep the last one; both would become one with the rights of both.
        out.declare(resource, f"{kind} {name}")
    annotations.ignore("kubectl.kubernetes.io/last-applied-configuration")
    # As `TopicOperatorUtil.isManaged`, where all but the text "false" is true.
    managed = annotations.text("strimzi.io/managed", "true")
    if managed not in {"true", "false"}:
        annotations.reject_field("strimzi.io/managed", f"must be true or false, not {quoted(managed)}")
    if managed == "false":
        resource.leave_out_all(f"{kind} {name}: not managed by Strimzi either (strimzi.io/managed)")
    else:
        annotations.leave_out(
            "only Strimzi reads it", *(key for key in annotations.untaken if "strimzi.io/" in key)
        )
        add = _add_topic if kind == "KafkaTopic" else _add_user
        add(spec, name, (labels, annotations.mapping_of_rest(prose=True)), out)


def _add_topic(
    spec: Fields, name: str, described: tuple[Mapping[str, str], Mapping[str, str]], out: Conversion
) -> None:
    counts = spec.count("partitions"), spec.count("replicas")
    out.describe(
        out.add_topic(spec, spec.name("topicName", name), counts, spec.configs("config")), *described
    )


def _add_user(
    spec: Fields, name: str, described: tuple[Mapping[str, str], Mapping[str, str]], out: Conversion
) -> None:
    authentication, authorization = spec.below("authentication"), spec.below("authorization")
    # As `KafkaUserModel.getUserName`: the user of a certificate has its distinguished name.
    user = f"CN={name}" if authentication.text("type").startswith("tls") else name
    if authentication.text("type") == "scram-sha-512":
        authentication.ignore("password")
        out.leave_out_credential(authentication, name)
    spec.leave_out("secrets are not managed", "template")
    authorization.ignore("type")
    for rule in authorization.list_each("acls"):
        resource = rule.below("resource")
        kind = resource.text("type")
        if kind == "cluster":
            # As `AclRuleClusterResource`, which has neither.
            resource.ignore("name", "patternType")
        target = (
            (CLUSTER_NAME, "literal")
            if kind == "cluster"
            else (resource.name("name"), resource.text("patternType", "literal"))
        )
        out.add_acl(
            rule,
            f"User:{user}",
            (kind, target[0]),
            # Before v1, a rule could have one operation.
            [*rule.texts("operations"), *([rule.text("operation")] if "operation" in rule else [])],
            pattern=target[1],
            host=rule.text("host", WILDCARD),
            permission=rule.text("type", "allow"),
        )
        out.describe(principal_ref(f"User:{user}"), *described)
    if "quotas" in spec:
        quotas = spec.below("quotas")
        limits = {name: text for key, name in _LIMITS.items() if (text := quotas.text(key))}
        if (ref := out.add_quota(quotas, {"user": user}, limits)) is not None:
            out.describe(ref, *described)
