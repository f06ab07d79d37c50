"""The cluster in memory in place of the one that a command connects to."""

from __future__ import annotations

import pytest

from kafkaform.cli.session import Session
from tests.support.cli.memory_program import Connected


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Connected:
    cluster = Connected()
    monkeypatch.setattr(Session, "cluster", lambda _: cluster)
    return cluster
