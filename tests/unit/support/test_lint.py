"""The checks of names, docstrings and messages that `make lint` runs."""

from pathlib import Path

import pytest

from scripts import check_words
from scripts.list_messages import ROOT, Message, find_problems, list_messages


@pytest.mark.parametrize(
    ("file", "sort", "text"),
    [
        ("kafkaform/core/config_values.py", "error", "{key.name}: {shown} is below the minimum {least}"),
        ("kafkaform/cli/apply.py", "hint", "give one PLAN.json, or manifests"),
        ("kafkaform/cli/plan.py", "help", "Exit 2 if there are changes, 0 if there are none."),
        ("kafkaform/cli/show.py", "command", "Show a saved plan. Needs no cluster."),
        ("kafkaform/rules/health.py", "rule", "Partitions are offline.\n\nEvery replica "),
        ("kafkaform/resources/topic/config_risk.py", "text", "older records are deleted permanently, "),
        ("kafkaform/templates/kafkaform.yaml", "template", "Values of every topic that does not set"),
        ("schemas/audit.schema.json", "schema", "The consents that the change had."),
    ],
)
def test_message_of_each_kind_is_listed(file: str, sort: str, text: str) -> None:
    assert [m for m in list_messages(ROOT / file) if m.sort == sort and text in m.text]


def test_expressions_in_messages_are_listed_separately(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""A docstring."""\nx = f"{count} is {\'not a\' if count else \'a valid\'} count"\n')
    assert [(m.line, m.text) for m in list_messages(path)] == [
        (2, "not a"),
        (2, "a valid"),
        (2, "{count} is {…} count"),
    ]


@pytest.mark.parametrize(
    ("sort", "text"),
    [
        ("text", "broker 3 and two brokers did not tell their configs"),
        ("text", "Kafka does not know it"),
        ("text", "'x' is no place in a log"),
        ("text", "two lines.. and no more"),
        ("error", "the file is empty."),
        ("hint", "write  it again"),
        ("rule", "A topic has no partitions"),
        ("error", "run`kafkaform plan` again"),
    ],
)
def test_wrong_words_are_found(sort: str, text: str) -> None:
    assert list(find_problems(Message("module.py", 1, sort, text)))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def shown(plan): ...", "shown"),
        ("def of_plan(plan): ...", "of_plan"),
        ("found = 1", "found"),
        ("def test_a_topic_is_reported(): ...", "test_a_topic_is_reported"),
        ("from tests.unit.test_plans import build_plan", "tests.unit.test_plans"),
        ('def read(path):\n    """What a file has in it."""', "What a file has in it."),
        ('class Plan:\n    """How things are to be."""', "How things are to be."),
        ('def read(path):\n    """See `Plan.read`."""', "See `Plan.read`."),
        ('def read(path):\n    """Read it."""', "Read it."),
    ],
)
def test_invalid_names_and_docstrings_are_found(tmp_path: Path, source: str, text: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert [problem[1] for problem in check_words.find_problems(path)] == [text]
    assert text.lstrip("_") not in check_words.ALLOWED.keys() - {"found"}
