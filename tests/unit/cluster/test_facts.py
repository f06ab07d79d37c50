"""Tests of the facts about a cluster besides its resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from kafkaform.cluster.kafka.facts import _read_group_protocols
from kafkaform.cluster.transport.connection import Connection

ENABLED = "group.coordinator.rebalance.protocols"
NEW = {68: (0, 1), 76: (1, 1), 88: (0, 0)}


class Offering:
    """A connection to a broker that offers requests in these versions."""

    def __init__(self, offered: Mapping[int, tuple[int, int]]) -> None:
        self._offered = offered

    def read_api_versions(self) -> Mapping[int, tuple[int, int]]:
        return self._offered


def protocols(offered: Mapping[int, tuple[int, int]], *enabled: str | None) -> frozenset[str]:
    configs = {broker: {} if names is None else {ENABLED: names} for broker, names in enumerate(enabled)}
    return _read_group_protocols(cast("Connection", Offering(offered)), cast("Any", configs))


@pytest.mark.parametrize(
    ("offered", "wanted"),
    [
        ({}, {"classic"}),
        ({68: (0, 0)}, {"classic"}),  # the preview of 3.7 to 3.9
        ({68: (0, 1), 76: (0, 0)}, {"classic", "consumer"}),
        ({68: (0, 1), 76: (1, 1)}, {"classic", "consumer", "share"}),
        (NEW, {"classic", "consumer", "share", "streams"}),
    ],
)
def test_group_protocols_follow_supported_heartbeats(
    offered: Mapping[int, tuple[int, int]], wanted: set[str]
) -> None:
    assert protocols(offered) == wanted, "of brokers that tell no configs"
    assert protocols(offered, "classic,consumer", "classic,consumer") == wanted
    assert protocols(offered, None, None) == wanted


@pytest.mark.parametrize("other", ["classic", None])
def test_older_broker_limits_group_protocols(other: str | None) -> None:
    assert protocols(NEW, "classic,consumer", other) == frozenset({"classic"})
