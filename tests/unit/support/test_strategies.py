"""The strategies reach what they are for: else properties hold for want of examples."""

from hypothesis import given, settings

from kafkaform.core.model import Create, Delete, Risk, Status, Update, assessments
from kafkaform.core.plans import ChangeOrigin, Plan
from tests.support.plans import strategies
from tests.support.plans.strategies import examples


def test_drawn_plans_cover_every_kind() -> None:
    drawn: list[Plan] = []

    @settings(examples(6), derandomize=True, database=None)
    @given(strategies.plans())
    def draw(plan: Plan) -> None:
        drawn.append(plan)

    draw()
    changes = [planned for plan in drawn for planned in plan.changes]
    assert {type(planned.change) for planned in changes} == {Create, Update, Delete}
    assert {planned.status for planned in changes} == {*Status}
    assert {planned.origin for planned in changes} == {None, *ChangeOrigin}
    assert {assessment.risk for planned in changes for assessment in assessments(planned.change)} == {*Risk}
    assert all(bool(planned.earlier) == (planned.origin is ChangeOrigin.MIXED) for planned in changes)
    assert {bool(planned.location) for planned in changes} == {True, False}
    for bite in ("\x1b[2J\x1b[31m", "\n```\n", "<!--", "@octocat", "$(rm -rf /)"):
        assert any(bite in repr(plan) or repr(bite)[1:-1] in repr(plan) for plan in drawn), bite
    for part in ("diagnostics", "unmanaged", "undeclared", "consents", "unknown", "readers"):
        assert {bool(getattr(plan, part)) for plan in drawn} == {True, False}, part
    assert 0 in {len(plan.changes) for plan in drawn}
