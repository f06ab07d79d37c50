"""Audit records that tests tell."""

from __future__ import annotations

import pytest

from tests.support.plans.audit import Story


@pytest.fixture
def story() -> Story:
    return Story()
