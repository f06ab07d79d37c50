"""The results of `doctor` and `drift` as metrics, for the textfile collector of node_exporter."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from kafkaform.inspect.drift import DriftVerdict
from kafkaform.inspect.health_check import HealthVerdict
from kafkaform.report.doctor import figures
from kafkaform.resources import KINDS
from spark_validation.arrivals import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.core.model import ResourceRef
    from kafkaform.inspect.drift import Drift
    from kafkaform.inspect.health_check import HealthReport


class Gauges:
    """Gauges that all have the label `cluster`, so that several clusters can stand side by side.

    Args:
        cluster: What the configuration calls it.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._families: list[GaugeMetricFamily] = []

    def add(self, name: str, documentation: str, value: float) -> None:
        """Add a gauge with one value."""
        self.add_each(name, documentation, (), [((), value)])

    def add_each(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        samples: Iterable[tuple[Sequence[str], float]],
    ) -> None:
        """Add a gauge with a value for each of some labels."""
        family = GaugeMetricFamily(name, documentation, labels=["cluster", *labels])
        for values, value in samples:
            family.add_metric([self._cluster, *values], float(value))
        self._families.append(family)

    def collect(self) -> list[GaugeMetricFamily]:
        """What the registry asks for."""
        return self._families

    def exposition(self) -> str:
        """All of them, as text."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry).decode()


_FIGURES = {
    "brokers": "Live brokers.",
    "topics": "Topics visible to the account.",
    "partitions": "Partitions of these topics.",
    "offline_partitions": "Partitions without a leader.",
    "under_replicated_partitions": "Partitions with a replica that is not in sync.",
    "under_min_isr_partitions": "Partitions with fewer replicas in sync than min.insync.replicas.",
    "reassigning_partitions": "Partitions that a running reassignment moves.",
}


def doctor_metrics(report: HealthReport | None, name: str, at: float) -> str:
    """The metrics of a health report.

    Args:
        report: What was found; None where the cluster could not be read: it then counts as not healthy.
        name: What the configuration calls the cluster.
        at: When, in seconds since 1970.
    """
    gauges = Gauges(name)
    verdict = report.verdict if report is not None else HealthVerdict.UNKNOWN
    gauges.add(
        "kafkaform_healthy", "Whether the cluster is known to be healthy.", verdict is HealthVerdict.HEALTHY
    )
    gauges.add(
        "kafkaform_doctor_success",
        "Whether the last run could determine the health of the cluster.",
        verdict is not HealthVerdict.UNKNOWN,
    )
    gauges.add("kafkaform_doctor_last_run_timestamp_seconds", "When the last run ended.", at)
    if report is not None:
        _add_figures(gauges, report)
    return gauges.exposition()


_KNOWN = frozenset({Spread.EVEN, Spread.UNEVEN})


def _add_figures(gauges: Gauges, report: HealthReport) -> None:
    numbers = figures(report)
    for name, documentation in _FIGURES.items():
        if (number := numbers[name]) is not None:
            gauges.add(f"kafkaform_{name}", documentation, number)
    counts = Counter((f.code, f.severity.value) for f in report.findings if f.waived is None)
    gauges.add_each(
        "kafkaform_finding",
        "Findings by rule and severity, without waived ones.",
        ("code", "severity"),
        sorted(counts.items()),
    )
    lags = ((name, group.lag) for name, group in sorted(report.groups.items()))
    gauges.add_each(
        "kafkaform_group_lag",
        "Records between a group's committed offsets and the ends of the logs.",
        ("group",),
        (((name,), lag) for name, lag in lags if lag is not None),
    )
    ratios = ((topic.name, topic.ratio) for topic in report.arrivals if topic.spread in _KNOWN)
    gauges.add_each(
        "kafkaform_topic_arrivals_max_over_mean",
        "Records that arrived in the fullest partition of a topic, over the mean of its partitions.",
        ("topic",),
        (((name,), ratio) for name, ratio in sorted(ratios) if ratio is not None),
    )


def drift_metrics(drift: Drift | None, name: str, at: float) -> str:
    """The metrics of drift.

    Args:
        drift: What drifted; None where the cluster or the manifests could not be read.
        name: What the configuration calls the cluster.
        at: When, in seconds since 1970.
    """
    gauges = Gauges(name)
    told = drift is not None and drift.verdict is not DriftVerdict.UNKNOWN
    gauges.add(
        "kafkaform_drift_success",
        "Whether the last run could determine drift.",
        told,
    )
    gauges.add("kafkaform_drift_last_run_timestamp_seconds", "When the last run ended.", at)
    if drift is not None:
        _add_drift(gauges, drift)
    return gauges.exposition()


def _add_drift(gauges: Gauges, drift: Drift) -> None:
    gauges.add_each(
        "kafkaform_drift_resources",
        "Declared resources that drifted.",
        ("kind",),
        _by_kind(drifted.ref for drifted in drift.resources),
    )
    gauges.add_each(
        "kafkaform_drift_fields",
        "Fields that drifted; 1 for a resource that is missing or should not exist.",
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
