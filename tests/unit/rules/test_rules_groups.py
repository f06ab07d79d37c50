"""Tests of the suggestions of rules about groups, and of their places in a manifest."""

from __future__ import annotations

import re

import pytest

from tests.support.plans.rules import check_rule, scene
from tests.support.plans.scenes import declare_topic
from tests.unit.rules.rows.groups import members, slow


@pytest.mark.parametrize("partitions", [5, 7, 9, 12, 17, 60])
def test_suggested_numbers_of_members_divide_the_partitions(partitions: int) -> None:
    for number in range(2, partitions):
        for finding in check_rule("KF202", scene(declare_topic("orders", partitions), members(number))):
            suggested = str(finding.suggestion).partition(" members,")[0]
            for better in map(int, re.findall(r"\d+", suggested)):
                assert partitions % better == 0 or better == number


@pytest.mark.parametrize("each", [600, 601, 7_001, 299_999])
def test_suggested_batch_is_the_largest_that_fits(each: int) -> None:
    (finding,) = check_rule("KF203", slow(each))
    (fitting,) = map(int, re.findall(r"max\.poll\.records: (\d+)", str(finding.suggestion)))
    assert not check_rule("KF203", slow(each, client={"max.poll.records": str(fitting)}))
    assert check_rule("KF203", slow(each, client={"max.poll.records": str(fitting + 1)}))
