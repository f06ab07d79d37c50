"""Releases of Apache Kafka: how a version is written, and what differs between those that can be run."""

from __future__ import annotations

import re

from kafkaform.core.errors import DevClusterError

KAFKA_VERSION = "4.3.1"
"""What a new cluster runs unless told otherwise."""

# The patch release that stands for its minor version: each of them was started.
_PATCHES = (
    "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1",
    "4.0.0", "4.1.1", KAFKA_VERSION,
)  # fmt: skip
_KNOWN = {version.rpartition(".")[0]: version for version in _PATCHES}

# DescribeCluster, which shows that a broker is ready, came with 2.8.
_OLDEST = (2, 8)
# Before, KRaft was a preview, without ACLs up to 3.1.
_KRAFT = (3, 3)
# Brokers before wrote their log with Log4j 1, and have classes that name it.
_LOG4J2 = (4, 0)


def full_version(given: str) -> str:
    """A version as Maven Central has it: `3.9` is its last patch release that was tried here.

    Raises:
        DevClusterError: It is not written as a version, or is too old.
    """
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", given, re.ASCII):
        raise DevClusterError(
            f"--kafka-version {given}: a version of Apache Kafka has the form N.N.N", hint=tested_versions()
        )
    version = _KNOWN.get(given, given)
    if minor(version) < _OLDEST:
        raise DevClusterError(
            f"--kafka-version {given}: the oldest version that can run is 2.8", hint=tested_versions()
        )
    if version.count(".") == 1:
        raise DevClusterError(
            f"--kafka-version {given}: which patch release of {given} is not known here",
            hint=f"write it in full, such as {given}.0; {tested_versions()}",
        )
    return version


def tested_versions() -> str:
    """The minor versions that were tried, for a hint."""
    return f"tested versions: {', '.join(_KNOWN)}"


def minor(version: str) -> tuple[int, int]:
    """Major and minor number."""
    major, number, *_ = version.split(".")
    return int(major), int(number)


def needs_zookeeper(version: str) -> bool:
    """Whether brokers of this version run with ZooKeeper here, and not with KRaft."""
    return minor(version) < _KRAFT


def names_log4j_1(version: str) -> bool:
    """Whether brokers of this version need the classes of Log4j 1, or what stands in for them."""
    return minor(version) < _LOG4J2
