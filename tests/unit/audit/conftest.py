"""Audit records that tests tell."""

import pytest

from tests.support.plans.audit import Story


@pytest.fixture
def story() -> Story:
    return Story()
