"""Drift as metrics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.inspect.drift import Verdict
from kafkaform.report.prometheus import Gauges
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.core.model import ResourceRef
    from kafkaform.inspect.drift import Drift


def drift_metrics(drift: Drift | None, name: str, at: float) -> str:
    """The metrics of drift.

    Args:
        drift: What drifted; None where the cluster or the manifests could not be read.
        name: What the configuration calls the cluster.
        at: When, in seconds since 1970.
    """
    gauges = Gauges(name)
    told = drift is not None and drift.verdict is not Verdict.UNKNOWN
    gauges.add(
        "kafkaform_drift_success",
        "Whether the last run could tell if the cluster is as declared.",
        told,
    )
    gauges.add("kafkaform_drift_last_run_timestamp_seconds", "When the last run ended.", at)
    if drift is not None:
        _add_counts(gauges, drift)
    return gauges.exposition()


def _add_counts(gauges: Gauges, drift: Drift) -> None:
    gauges.add_each(
        "kafkaform_drift_resources",
        "Declared resources that are not as declared.",
        ("kind",),
        _by_kind(drifted.ref for drifted in drift.resources),
    )
    gauges.add_each(
        "kafkaform_drift_fields",
        "Fields that are not as declared; 1 for a resource that is missing, or should not be there.",
        ("kind", *(kind.noun for kind in KINDS.values()), "drift"),
        (
            ((drifted.ref.kind, *_named(drifted.ref), drifted.form.value), drifted.size)
            for drifted in drift.resources
        ),
    )
    if drift.unmanaged is not None:
        gauges.add_each(
            "kafkaform_unmanaged",
            "Resources on the cluster that no manifest declares.",
            ("kind",),
            _by_kind(drift.unmanaged),
        )


def _by_kind(refs: Iterable[ResourceRef]) -> list[tuple[tuple[str], int]]:
    """A number for every kind: a metric that goes away is taken for one that does not change."""
    counts = Counter(ref.kind for ref in refs)
    return [((kind,), counts[kind]) for kind in KINDS]


def _named(ref: ResourceRef) -> list[str]:
    """The name under the label of its kind, which exporters of Kafka's own metrics call the same."""
    return [ref.name if kind == ref.kind else "" for kind in KINDS]
