"""Every rule on contexts that trip it and on contexts that do not, and the catalogue of what rules say."""

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform import rules
from tests.support.plans.pasting import WORDS, check_suggestion
from tests.support.plans.rules import Row, check_rule, describe_findings, write_catalogue
from tests.unit.rules.rows import access, changes, groups, health, skew, succession, topics

ROWS: list[Row] = [
    *topics.ROWS,
    *groups.ROWS,
    *health.ROWS,
    *changes.ROWS,
    *skew.ROWS,
    *access.ROWS,
    *access.SUBJECTS,
    *succession.ROWS,
]
NAMED = {code: [row for row in ROWS if row.code == code and row.name] for code in rules.RULES}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_rule_row_has_expected_findings(row: Row) -> None:
    assert describe_findings(check_rule(row.code, row.context)) == list(row.findings)


def test_rule_messages_match_golden(golden: SnapshotAssertion) -> None:
    assert write_catalogue(ROWS) == golden(name="messages.txt")


def test_row_names_are_unique() -> None:
    for code, rows in NAMED.items():
        assert len({row.name for row in rows}) == len(rows) > 0, code
    assert rules.RULES.keys() >= WORDS.keys()


@pytest.mark.parametrize("code", sorted(rules.RULES))
def test_rule_suggestions_are_valid(code: str) -> None:
    findings = [finding for row in NAMED[code] for finding in check_rule(code, row.context)]
    suggestions = [finding.suggestion for finding in findings if finding.suggestion is not None]
    assert suggestions
    assert (sum(map(check_suggestion, suggestions)) == 0) is (code in WORDS), suggestions
