"""The check of names and docstrings that `make lint` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_words import ALLOWED, find_problems


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def shown(plan): ...", "shown"),
        ("def _merged(plans): ...", "_merged"),
        ("def of_plan(plan): ...", "of_plan"),
        ("def _with_notes(plan): ...", "_with_notes"),
        ("found = 1", "found"),
        ("def test_a_topic_is_reported(): ...", "test_a_topic_is_reported"),
        ("def test_topic_is_told(): ...", "test_topic_is_told"),
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
    assert [problem[1] for problem in find_problems(path)] == [text]
    assert text.lstrip("_") not in ALLOWED.keys() - {"found"}


@pytest.mark.parametrize(
    "source",
    [
        "def read_plan(path): ...",
        "def read(path): ...",
        "def cut(text): ...",
        "def is_shown(plan) -> bool: ...",
        "def deleted(plan) -> bool: ...",
        "@property\ndef deleted(self): ...",
        "partition = 1",
        "def test_recreated_topic_is_reported(): ...",
        "@pytest.fixture\ndef saved(project): ...",
        "from tests.support.plans import build_plan",
        'def read(path):\n    """Return the plan in a file."""',
        "def to_json(plan): ...",
    ],
)
def test_verbs_and_nouns_pass(tmp_path: Path, source: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert list(find_problems(path)) == []
