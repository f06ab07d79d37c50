"""Releases of Apache Kafka: versions as users write them, and the differences that a start depends on."""

from __future__ import annotations

from kafkaform.core.errors import DevClusterError

KAFKA_VERSION = "4.3.1"
"""The default version of a new cluster."""

RELEASES = (
    "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1",
    "4.0.0", "4.1.1", "4.2.1", KAFKA_VERSION,
)  # fmt: skip
"""The tested release of each minor version, whose jars are pinned.

The first is 2.8, which added DescribeCluster (KIP-700) for the check of readiness.
"""
_BY_MINOR_VERSION = {release.rpartition(".")[0]: release for release in RELEASES}

# KRaft is ready for production from 3.3 on (KIP-833); it had no ACLs before 3.2 (KIP-801).
_KRAFT = (3, 3)


def resolve_version(given: str) -> str:
    """Return a release of Apache Kafka; a minor version such as `3.9` is its tested release.

    Raises:
        DevClusterError: It is not one of the tested releases.
    """
    version = _BY_MINOR_VERSION.get(given, given)
    if version not in RELEASES:
        raise DevClusterError(
            f"--kafka-version {given}: not a release that was tested",
            hint=f"give one of {', '.join(RELEASES)}, or its first two numbers",
        )
    return version


def parse_minor_version(version: str) -> tuple[int, int]:
    """Return the major and the minor number of a version."""
    major, number, *_ = version.split(".")
    return int(major), int(number)


def needs_zookeeper(version: str) -> bool:
    """Return whether brokers of this version run with ZooKeeper here, not with KRaft."""
    return parse_minor_version(version) < _KRAFT
