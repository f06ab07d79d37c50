"""Numbers and nouns in messages agree, whatever the number is."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaform.core.wording import counted, join_words, listed
from kafkaform.plan.summary import word_consent_count
from tests.support.sources import parse_sources

ROOT = Path(__file__).parents[3]
NOUNS = (
    "topic group partition broker replica member record key file line change resource commit offset value "
    "cluster finding error warning operation character command manifest divisor element window salt row "
    "column consumer plan"
)
PLURAL = re.compile(
    r" (?:(?:more|other|distinct|of|its|the|equal|sampled|declared|refused|idle) )*"
    rf"(?:{'|'.join(f'{noun}s' for noun in NOUNS.split())})\b"
)
VERB = re.compile(
    r" (?:is|are|was|were|has|have|does|do|needs?|stays?|differs?|lacks?|fits?|reads?|holds?|keeps?|moves?)\b"
)
SHARES = re.compile(
    r"(?:percent|share|format_estimate|times_mean|rounded_size|_human|human|_either|format_known)\("
)
"""What is no count."""
NEVER_ONE = {
    "kafkaform/cli/apply.py": {"len(ready)"},
    "kafkaform/cluster/kafka/health.py": {"len(partitions)"},
    "kafkaform/cluster/wire/message_schema.py": {"count"},
    "kafkaform/config/manifests/loader.py": {"MAX_VALUES"},
    "kafkaform/config/manifests/yaml_hazards.py": {"MAX_FILE_NODES", "MAX_NODES", "sizes[id(root)]"},
    "kafkaform/core/printable.py": {"len(text) - len(pieces)", "len(word) - start - end"},
    "kafkaform/plan/placement/placing.py": {"len(live)", "len(present)"},
    "kafkaform/plan/placement_planning.py": {"counts[-1]"},
    "kafkaform/plan/skew_report.py": {"after"},
    "kafkaform/report/markdown.py": {"limit"},
    "kafkaform/resources/topic/config_risk.py": {"after"},
    "kafkaform/resources/replicas/copying.py": {"copying.topics"},
    "kafkaform/resources/topic/risk.py": {"after"},
    "kafkaform/resources/topic/spec.py": {"replicas"},
    "kafkaform/rules/group.py": {"' or '.join(map(str, near))", "members", "sum(group.partitions.values())"},
    "kafkaform/rules/health.py": {"len(transactions)"},
    "kafkaform/rules/skew.py": {"after", "ceil(times)", "partitions"},
    "kafkaform/rules/topic_partitions.py": {
        *("_FILES * replicas", "brokers", "ceil(partitions / brokers)", "len(few)", "len(sizes)"),
        *("members", "number", "partitions", "replicas", "total"),
    },
    "kafkaform/rules/topic_replicas.py": {"better", "brokers", "least + 1"},
    "kafkaform/rules/topic_settings.py": {"len(name)"},
    "kafkaform/vcs/forge/markers.py": {"total"},
    "spark_validation/files.py": {"len(topics)", "total"},
    "spark_validation/policy.py": {"MIN_RECORDS"},
    "spark_validation/wording.py": {
        *("case.partitions", "distinct", "facts.partition_count", "fewest", "join_items(bounds)"),
        *("keyless", "keys", "len(counts)", "len(partitions)", "members", "most_salts", "needed"),
        *("offsets", "partitions", "records", "windows"),
    },
}
"""Numbers that are followed by a plural and cannot be 1: limits and constants, and those that a condition
beside the message excludes. Every other one is worded by `counted`."""


AGREEING = {
    ("kafkaform/cluster/kafka/topic_sources.py", "counted(len(names), 'topic')"),
    ("kafkaform/report/skew_values.py", "counted(present, 'partition')"),
    ("kafkaform/rules/health.py", "counted(total, 'partition')"),
    ("kafkaform/resources/consumer_group/risk.py", "counted(before - after, 'record')"),
    ("kafkaform/rules/health.py", "counted(len(topics), 'topic')"),
    ("spark_validation/key_counts.py", "count"),
}
"""Numbers that are followed by a verb whose subject is another word, or that cannot be 1."""


def find_numbers_before(words_pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Find the file and the expression of each number that a message has such words behind."""
    sources = {**parse_sources("kafkaform"), **parse_sources("spark_validation")}
    texts = ((path, node) for path, nodes in sources.items() for node in nodes)
    for path, text in texts:
        if isinstance(text, ast.JoinedStr):
            for number, words in itertools.pairwise(text.values):
                if not isinstance(number, ast.FormattedValue) or not isinstance(words, ast.Constant):
                    continue
                shown = ast.unparse(number.value)
                if words_pattern.match(str(words.value)) and not SHARES.match(shown):
                    yield path, shown


def test_numbers_before_nouns_use_counted() -> None:
    found: dict[str, set[str]] = {}
    for path, number in find_numbers_before(PLURAL):
        found.setdefault(path, set()).add(number)
    assert found == NEVER_ONE


def test_verbs_after_counts_agree() -> None:
    counts = re.compile(r"counted\(|len\(|.*\bcounts?\b")
    assert {(path, text) for path, text in find_numbers_before(VERB) if counts.match(text)} == AGREEING


@pytest.mark.parametrize(
    ("number", "noun", "verb"),
    [
        (0, "0 topics", "0 need consent"),
        (1, "1 topic", "1 needs consent"),
        (2, "2 topics", "2 need consent"),
        (1_200, "1,200 topics", "1,200 need consent"),
    ],
)
def test_numbers_agree_with_nouns_and_verbs(number: int, noun: str, verb: str) -> None:
    assert (counted(number, "topic"), word_consent_count(number)) == (noun, verb)


@pytest.mark.parametrize(
    ("number", "short", "series"),
    [(1, "a", "a"), (2, "a and 1 more topic", "a and b"), (3, "a and 2 more topics", "a, b and c")],
)
def test_lists_are_shortened_or_joined(number: int, short: str, series: str) -> None:
    items = ["a", "b", "c"][:number]
    assert (listed(items, 1, noun="topic"), join_words(items)) == (short, series)


def test_and_joins_are_limited_to_two_modules() -> None:
    joined = {
        path
        for package in ("kafkaform", "spark_validation")
        for path in parse_sources(package)
        if '" and ".join' in (ROOT / path).read_text("utf-8")
    }
    assert joined == {"kafkaform/apply/moves/throttles.py", "kafkaform/rules/group_topics.py"}
