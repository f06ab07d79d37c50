"""Metrics in Prometheus' text format, for the textfile collector of node_exporter, and those of a checkup."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from kafkaform.inspect.health_check import Verdict
from kafkaform.report.doctor import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.inspect.health_check import Checkup


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
    "topics": "Topics that the account sees.",
    "partitions": "Partitions of these topics.",
    "offline_partitions": "Partitions without a leader.",
    "under_replicated_partitions": "Partitions of which a replica is not in sync.",
    "under_min_isr_partitions": "Partitions with fewer replicas in sync than min.insync.replicas.",
    "reassigning_partitions": "Partitions that a running reassignment moves.",
}


def doctor_metrics(checkup: Checkup | None, name: str, at: float) -> str:
    """The metrics of a checkup.

    Args:
        checkup: What was found; None where the cluster could not be read: it then counts as not healthy.
        name: What the configuration calls the cluster.
        at: When, in seconds since 1970.
    """
    gauges = Gauges(name)
    verdict = checkup.verdict if checkup is not None else Verdict.UNKNOWN
    gauges.add("kafkaform_healthy", "Whether the cluster is known to be healthy.", verdict is Verdict.HEALTHY)
    gauges.add(
        "kafkaform_doctor_success",
        "Whether the last run could tell if the cluster is healthy.",
        verdict is not Verdict.UNKNOWN,
    )
    gauges.add("kafkaform_doctor_last_run_timestamp_seconds", "When the last run ended.", at)
    if checkup is not None:
        _add_figures(gauges, checkup)
    return gauges.exposition()


def _add_figures(gauges: Gauges, checkup: Checkup) -> None:
    numbers = figures(checkup)
    for name, documentation in _FIGURES.items():
        if (number := numbers[name]) is not None:
            gauges.add(f"kafkaform_{name}", documentation, number)
    counts = Counter((f.code, f.severity.value) for f in checkup.findings if f.waived is None)
    gauges.add_each(
        "kafkaform_finding",
        "Findings by rule and severity, without those that manifests waive.",
        ("code", "severity"),
        sorted(counts.items()),
    )
    lags = ((name, group.lag) for name, group in sorted(checkup.groups.items()))
    gauges.add_each(
        "kafkaform_group_lag",
        "Records from a group's committed offsets to the ends of the logs.",
        ("group",),
        (((name,), lag) for name, lag in lags if lag is not None),
    )
