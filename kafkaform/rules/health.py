"""Rules about the health of a live cluster, and which of them speak against moving data."""

from __future__ import annotations

from kafkaform.rules import health_brokers, health_declared, health_leaders, health_partitions

CRITICAL = frozenset({"KF301", "KF303", "KF304", "KF305"})
"""While one of these trips, a change that moves or destroys data can cost the last good copy."""

_REGISTERED = (health_brokers, health_partitions, health_declared, health_leaders)
