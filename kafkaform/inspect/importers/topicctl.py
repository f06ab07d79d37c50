"""topicctl: topics and ACLs, one document each, and the configurations of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.acls import WILDCARD
from kafkaform.core.wording import quoted
from kafkaform.inspect.importers.conversion import Conversion, principal_ref
from kafkaform.inspect.importers.fields import Fields, ScalarReading
from kafkaform.resources.replicas.layout import Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Data
    from kafkaform.core.model import ResourceRef

READING = ScalarReading.JSON
_STRATEGIES = {
    "any": Strategy.BALANCED,
    "balanced-leaders": Strategy.BALANCED,
    "cross-rack": Strategy.RACK_AWARE,
    "static": Strategy.STATIC,
}
"""Those with a counterpart."""
_RACK_STRATEGIES = ("in-rack", "static-in-rack")
"""Those that keep all replicas of a partition in one rack."""
_CLUSTER_FIELDS = ("bootstrapAddrs", "zkAddrs")
"""The fields by which the configuration of a cluster differs from a topic."""
_TOPIC_FIELDS = ("partitions", "replicationFactor", "placement", "retentionMinutes", "settings")
_MINUTE_MS = 60_000


def matches(data: Mapping[str, Data]) -> bool:
    """Return whether a document is one of topicctl."""
    return data.keys() == {"meta", "spec"}


def convert(documents: Sequence[Fields], out: Conversion) -> None:
    """Convert topics and ACLs."""
    for document in documents:
        meta, spec = document.below("meta"), document.below("spec")
        if any(name in spec for name in _CLUSTER_FIELDS):
            document.leave_out_all("a cluster: write it under clusters: of kafkaform.yaml")
            continue
        if not any(name in spec for name in ("acls", *_TOPIC_FIELDS)):
            # Such as a user, which only unreleased versions of topicctl have.
            document.leave_out_all("neither a topic, which has partitions, nor a list of acls")
            continue
        document.reject_texts("$", "topicctl puts a variable of the environment here", "write its value")
        if not out.takes(document, *(meta.text(part) for part in ("cluster", "environment", "region"))):
            continue
        labels = {key: text for key in ("cluster", "region", "environment") if (text := meta.text(key))}
        labels |= meta.mapping("labels")
        annotations = {"description": text} if (text := meta.text("description").strip()) else {}
        if consumers := meta.texts("consumers"):
            annotations["consumers"] = ", ".join(consumers)
        if "acls" in spec:
            meta.ignore("name")
            for acl in spec.list_each("acls"):
                _add_acl(acl, labels, annotations, out)
        else:
            out.describe(_add_topic(spec, meta.require("name"), out), labels, annotations)


def _add_topic(spec: Fields, name: str, out: Conversion) -> ResourceRef:
    # As `interfaceToString`.
    configs = spec.configs("settings", decimals=2)
    # 0 means not set.
    if spec.text("retentionMinutes") == "-1":
        spec.reject_field("retentionMinutes", "must be at least 0: write settings: {retention.ms: -1}")
    elif spec.text("retentionMinutes", "0") != "0" and (minutes := spec.count("retentionMinutes")):
        if "retention.ms" in configs:
            spec.reject_field("retentionMinutes", "and settings.retention.ms are both set: keep one")
        configs["retention.ms"] = str(minutes * _MINUTE_MS)
    spec.leave_out("`moves` in kafkaform.yaml instead", "migration")
    placement = spec.below("placement")
    placement.leave_out("brokers are chosen by their load", "picker")
    name_of_strategy = placement.text("strategy", "any")
    strategy = _STRATEGIES.get(name_of_strategy)
    replicas = placement.number_lists("staticAssignments")
    if name_of_strategy not in (*_STRATEGIES, *_RACK_STRATEGIES):
        placement.reject_field("strategy", f"{quoted(name_of_strategy)} is none of topicctl's")
    elif strategy is None:
        placement.leave_out("no strategy keeps the replicas in one rack", "strategy", "staticRackAssignments")
    counts = spec.count("partitions"), spec.count("replicationFactor")
    return out.add_topic(
        spec, name, counts, configs, strategy=strategy or Strategy.BALANCED, replicas=replicas
    )


def _add_acl(acl: Fields, labels: Mapping[str, str], annotations: Mapping[str, str], out: Conversion) -> None:
    resource = acl.below("resource")
    principal = resource.require("principal")
    out.add_acl(
        resource,
        principal,
        (resource.text("type"), resource.name("name")),
        acl.texts("operations"),
        pattern=resource.text("patternType"),
        # As `SetDefaults`, also for an empty one.
        host=resource.text("host") or WILDCARD,
        permission=resource.text("permission", "allow"),
    )
    out.describe(principal_ref(principal), labels, annotations)
