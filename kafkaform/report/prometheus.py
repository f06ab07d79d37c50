"""A checkup as metrics in Prometheus' text format, for the textfile collector of node_exporter."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from kafkaform.checkup import Verdict
from kafkaform.report.doctor import figures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.checkup import Checkup

_FIGURES = {
    "brokers": "Live brokers.",
    "topics": "Topics that the account sees.",
    "partitions": "Partitions of these topics.",
    "offline_partitions": "Partitions without a leader.",
    "under_replicated_partitions": "Partitions of which a replica is not in sync.",
    "under_min_isr_partitions": "Partitions with fewer replicas in sync than min.insync.replicas.",
    "reassigning_partitions": "Partitions that a running reassignment moves.",
}


def metrics(checkup: Checkup | None, name: str, at: float) -> str:
    """The metrics of a checkup; every one has the label `cluster`, so that several can stand side by side.

    Args:
        checkup: What was found; None where the cluster could not be read: it then counts as not healthy.
        name: What the configuration calls the cluster.
        at: When, in seconds since 1970.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(checkup, name, at))
    return generate_latest(registry).decode()


class _Collector:
    def __init__(self, checkup: Checkup | None, name: str, at: float) -> None:
        self._checkup = checkup
        self._name = name
        self._at = at

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The metrics."""
        checkup = self._checkup
        verdict = checkup.verdict if checkup is not None else Verdict.UNKNOWN
        yield self._gauge(
            "kafkaform_healthy", "Whether the cluster is known to be healthy.", verdict is Verdict.HEALTHY
        )
        yield self._gauge(
            "kafkaform_doctor_success",
            "Whether the last run could tell if the cluster is healthy.",
            verdict is not Verdict.UNKNOWN,
        )
        yield self._gauge("kafkaform_doctor_last_run_timestamp_seconds", "When the last run ended.", self._at)
        if checkup is None:
            return
        numbers = figures(checkup)
        for name, documentation in _FIGURES.items():
            if (number := numbers[name]) is not None:
                yield self._gauge(f"kafkaform_{name}", documentation, number)
        yield self._findings(checkup)
        yield self._lag(checkup)

    def _gauge(self, name: str, documentation: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(name, documentation, labels=["cluster"])
        gauge.add_metric([self._name], float(value))
        return gauge

    def _findings(self, checkup: Checkup) -> GaugeMetricFamily:
        documentation = "Findings by rule and severity, without those that manifests waive."
        gauge = GaugeMetricFamily("kafkaform_finding", documentation, labels=["cluster", "code", "severity"])
        counts = Counter((f.code, f.severity.value) for f in checkup.findings if f.waived is None)
        for (code, severity), number in sorted(counts.items()):
            gauge.add_metric([self._name, code, severity], number)
        return gauge

    def _lag(self, checkup: Checkup) -> GaugeMetricFamily:
        documentation = "Records from a group's committed offsets to the ends of the logs."
        gauge = GaugeMetricFamily("kafkaform_group_lag", documentation, labels=["cluster", "group"])
        for name, group in sorted(checkup.groups.items()):
            if group.lag is not None:
                gauge.add_metric([self._name, name], group.lag)
        return gauge
