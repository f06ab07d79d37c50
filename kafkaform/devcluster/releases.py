"""Releases of Apache Kafka: versions as users write them, and the differences that a start depends on."""

from __future__ import annotations

import re

from kafkaform.core.errors import DevClusterError

KAFKA_VERSION = "4.3.1"
"""The default version of a new cluster."""

# The patch release that is used for its minor version; each of them was tested.
_PATCHES = (
    "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1",
    "4.0.0", "4.1.1", KAFKA_VERSION,
)  # fmt: skip
_KNOWN = {version.rpartition(".")[0]: version for version in _PATCHES}

# 2.8 added DescribeCluster (KIP-700), which the check for readiness uses.
_OLDEST = (2, 8)
# KRaft is ready for production from 3.3 on (KIP-833); it had no ACLs before 3.2 (KIP-801).
_KRAFT = (3, 3)
# Brokers log with Log4j 2 from 4.0 on (KIP-653); older ones refer to classes of Log4j 1.
_LOG4J2 = (4, 0)


def resolve_version(given: str) -> str:
    """Return a version as on Maven Central; a minor version such as `3.9` is its newest tested patch release.

    Raises:
        DevClusterError: It is not a version, is too old, or has no tested patch release.
    """
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", given, re.ASCII):
        raise DevClusterError(
            f"--kafka-version {given}: not a version of Apache Kafka (N.N.N)", hint=list_tested_versions()
        )
    version = _KNOWN.get(given, given)
    if parse_minor_version(version) < _OLDEST:
        raise DevClusterError(
            f"--kafka-version {given}: the oldest version that can run is 2.8", hint=list_tested_versions()
        )
    # A minor version that is not in the table is newer than this kafkaform: its patch releases are unknown.
    if version.count(".") == 1:
        raise DevClusterError(
            f"--kafka-version {given}: no patch release of {given} was tested",
            hint=f"give the full version, such as {given}.0; {list_tested_versions()}",
        )
    return version


def list_tested_versions() -> str:
    """Return a hint with the minor versions that were tested."""
    return f"tested versions: {', '.join(_KNOWN)}"


def parse_minor_version(version: str) -> tuple[int, int]:
    """Return the major and the minor number of a version."""
    major, number, *_ = version.split(".")
    return int(major), int(number)


def needs_zookeeper(version: str) -> bool:
    """Return whether brokers of this version run with ZooKeeper here, not with KRaft."""
    return parse_minor_version(version) < _KRAFT


def names_log4j_1(version: str) -> bool:
    """Return whether brokers of this version need the classes of Log4j 1, or their replacement."""
    return parse_minor_version(version) < _LOG4J2
