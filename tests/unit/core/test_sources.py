"""Sources as a whole: numbers and nouns in messages agree, classes have one name each, and their fields."""

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]


@cache
def parse_sources(package: str) -> Mapping[str, Sequence[ast.AST]]:
    """Return all nodes of each file of a package, by its path."""
    return {
        str(path.relative_to(ROOT)): [*ast.walk(ast.parse(path.read_text("utf-8")))]
        for path in sorted((ROOT / package).rglob("*.py"))
    }


NOUNS = (
    "topic group partition broker replica member record key file line change resource commit offset value "
    "cluster finding error warning operation character command manifest divisor element window salt row "
    "column consumer plan"
)
PLURAL = re.compile(
    r" (?:(?:more|other|distinct|of|its|the|equal|sampled|declared|refused|idle) )*"
    rf"(?:{'|'.join(f'{noun}s' for noun in NOUNS.split())})\b"
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


def test_field_function_matches_class_kind() -> None:
    # msgspec's `field` in a dataclass, and the other way round, silently is the default value.
    mixed = []
    for path, nodes in parse_sources("kafkaform").items():
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        sources = {alias.name: node.module for node in imports for alias in node.names}
        for node in nodes:
            if not isinstance(node, ast.ClassDef) or "field" not in sources:
                continue
            decorated = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
            expected = "dataclasses" if decorated else "kafkaform.core.values"
            calls = {getattr(call.func, "id", "") for call in ast.walk(node) if isinstance(call, ast.Call)}
            if "field" in calls and sources["field"] != expected:
                mixed.append(f"{path}: {node.name}")
    assert mixed == []


def find_classes(package: str) -> dict[str, list[str]]:
    found = defaultdict(list)
    for path, nodes in parse_sources(package).items():
        for node in nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path}:{node.lineno}")
    return found


def test_public_class_names_are_unique() -> None:
    ours, theirs = find_classes("kafkaform"), find_classes("spark_validation")
    assert {name: places for name, places in [*ours.items(), *theirs.items()] if len(places) > 1} == {}
    # The name that spark_validation, which knows nothing of kafkaform, still has in common with it.
    assert ours.keys() & theirs.keys() <= {"Placement"}
