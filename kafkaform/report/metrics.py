"""Metrics of one cluster in Prometheus' text format, for the textfile collector of node_exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
