"""The results of `doctor` and `drift` as metrics, for the textfile collector of node_exporter."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from kafkaform.inspect.drift import Drift, DriftVerdict
from kafkaform.inspect.health_check import HealthReport, HealthVerdict
from kafkaform.report.doctor import figures
from kafkaform.resources import KINDS
from spark_validation.arrivals import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.core.model import ResourceRef


class Gauges:
    """Gauges that all have the label `cluster`, so that several clusters can stand side by side.

    Args:
        cluster: The name of the cluster in the configuration.
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
        # The first label is the same for all gauges, so that alerts can aggregate by it: `sum by (cluster)`.
        family = GaugeMetricFamily(name, documentation, labels=["cluster", *labels])
        for values, value in samples:
            family.add_metric([self._cluster, *values], float(value))
        self._families.append(family)

    def collect(self) -> list[GaugeMetricFamily]:
        """Return the gauges; `CollectorRegistry` calls this."""
        return self._families

    def exposition(self) -> str:
        """Return all gauges in Prometheus' text format."""
        # A registry of its own: the default one adds metrics of this process, which a textfile collector
        # would attribute to the host.
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
    """Return the metrics of a health report in Prometheus' text format.

    Args:
        report: The health report; None if the cluster could not be read, which counts as not healthy.
        name: What the configuration calls the cluster.
        at: When, in seconds since 1970.
    """
    gauges = Gauges(name)
    verdict = report.verdict if report is not None else HealthVerdict.UNKNOWN
    gauges.add(
        "kafkaform_healthy", "Whether the cluster is known to be healthy.", verdict is HealthVerdict.HEALTHY
    )
    # Healthy is 0 if it is unknown. This metric separates a cluster that is ill from a run that could not
    # find out.
    gauges.add(
        "kafkaform_doctor_success",
        "Whether the last run could determine the health of the cluster.",
        verdict is not HealthVerdict.UNKNOWN,
    )
    # node_exporter serves an old file for ever: only this time shows that nobody writes it any more.
    gauges.add("kafkaform_doctor_last_run_timestamp_seconds", "When the last run ended.", at)
    if report is not None:
        _add_figures(gauges, report)
    return gauges.exposition()


# With too few records, a ratio is chance, and an alert on it would be noise.
_KNOWN = frozenset({Spread.EVEN, Spread.UNEVEN})


def _add_figures(gauges: Gauges, report: HealthReport) -> None:
    numbers = figures(report)
    for name, documentation in _FIGURES.items():
        # An unknown figure is left out: as 0, it would look like a cluster without that problem.
        if (number := numbers[name]) is not None:
            gauges.add(f"kafkaform_{name}", documentation, number)
    # A waived finding was accepted: an alert on it would last as long as the waiver.
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
    """Return the metrics of drift in Prometheus' text format.

    Args:
        drift: The drift; None if the cluster or the manifests could not be read.
        name: What the configuration calls the cluster.
        at: When, in seconds since 1970.
    """
    gauges = Gauges(name)
    success = drift is not None and drift.verdict is not DriftVerdict.UNKNOWN
    gauges.add("kafkaform_drift_success", "Whether the last run could determine drift.", success)
    gauges.add("kafkaform_drift_last_run_timestamp_seconds", "When the last run ended.", at)
    if drift is not None:
        _add_drift(gauges, drift)
    return gauges.exposition()


def _add_drift(gauges: Gauges, drift: Drift) -> None:
    gauges.add_each(
        "kafkaform_drift_resources",
        "Declared resources that drifted.",
        ("kind",),
        _count_by_kind(drifted.ref for drifted in drift.resources),
    )
    gauges.add_each(
        "kafkaform_drift_fields",
        "Fields that drifted; 1 for a resource that is missing or should not exist.",
        # All series of a metric have the same label names, so each kind has a label for its name.
        ("kind", *(kind.words.noun for kind in KINDS.values()), "drift"),
        (
            ((drifted.ref.kind, *_kind_labels(drifted.ref), drifted.form.value), drifted.size)
            for drifted in drift.resources
        ),
    )
    # Not looked for is not the same as none, so there is no 0.
    if drift.unmanaged is not None:
        gauges.add_each(
            "kafkaform_unmanaged",
            "Resources on the cluster that no manifest declares.",
            ("kind",),
            _count_by_kind(drift.unmanaged),
        )


def _count_by_kind(refs: Iterable[ResourceRef]) -> list[tuple[tuple[str], int]]:
    """Count resources of every kind, zeros included: a missing series means that nothing was read."""
    counts = Counter(ref.kind for ref in refs)
    return [((kind,), counts[kind]) for kind in KINDS]


def _kind_labels(ref: ResourceRef) -> list[str]:
    """Return label values with the name under its kind's label, named as in exporters of Kafka's metrics."""
    # Prometheus treats an empty label like one that does not exist.
    return [ref.name if kind == ref.kind else "" for kind in KINDS]
