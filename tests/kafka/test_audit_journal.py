"""Writing the record: before anything is sent, and after; and what happens where it cannot be written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkaform.cluster.audit_layout import AUDIT_TOPIC
from kafkaform.core.errors import AuditError
from tests.support.clusters.fixtures import Account
from tests.support.plans.audit import recorded_apply
from tests.support.plans.scenes import declared, plan_for, state_of

# --- killed ----------------------------------------------------------------------------------------


def test_an_account_that_may_not_write_gets_each_way_out(
    account: Callable[..., Account], prefix: str
) -> None:
    cluster = account(f"TOPIC:{prefix}*:ALL").cluster
    plan = plan_for(cluster, declared(f"{prefix}a"))
    with pytest.raises(
        AuditError, match=f"the record in the topic {AUDIT_TOPIC.name} cannot be written: "
    ) as raised:
        recorded_apply(plan, cluster)
    assert raised.value.message.endswith("; nothing was applied")
    assert raised.value.hint is not None
    for way in (
        f"grant Write on the topic {AUDIT_TOPIC.name}",
        "audit: {topic: false, file: PATH}",
        "--no-audit",
    ):
        assert way in raised.value.hint
    assert state_of(cluster, f"{prefix}a") is None
