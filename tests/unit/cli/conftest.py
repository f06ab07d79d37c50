"""The cluster in memory in place of the one that a command connects to."""

import pytest

from tests.support.cli.memory_program import Connected, use_memory


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Connected:
    return use_memory(monkeypatch)
