"""Find names and first lines of docstrings that say less than a verb with its object, or a noun of the field.

    .venv/bin/python scripts/check_words.py [FOLDER ...]

`make lint` runs it. A name that is right all the same is in ALLOWED, with the reason.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("kafkaform", "spark_validation", "tests", "scripts", "benchmarks")
VERBS_TOO = frozenset({"read", "put", "set", "cut", "split", "run", "embed", "feed", "need", "seed"})
"""Participles that are imperatives as well."""
IRREGULAR = re.compile(
    "shown|written|told|known|made|taken|given|kept|left|found|said|seen|done|gone|drawn|held|meant|built|sent|"
    "spent|chosen|hidden|laid|led|lost|met|paid|sought|thrown|begun"
)
PREPOSITION = re.compile("of|with|without|by|in|on|at|for|as|under|over|about|beside|behind")
VAGUE = re.compile("ones?|told|found|those|these|said|others?|rest|what|whose|things?|more")
TEST = re.compile(r"test_(?:an?|the)_|test_(?:\w+_)?(?:told|tells?|said|says?|seen|made)(?:_|$)")
"""The name of a test begins with the unit, and machines do not tell, say or see."""
TEST_MODULE = re.compile(r"tests\..*\btest_\w+$")
QUESTION = re.compile(r"(?:What|Whether|How|Where|Who|Whose|Which|Why|When)\b")
SHORT = 3
"""So many words of a docstring say no more than the name does."""
ALLOWED: Mapping[str, str] = {
    "clipped": "used in f-strings of all rooms, where it reads as what it gives: `{clipped(text, 80)}`",
    "counted": "used in f-strings of all rooms: `{counted(3, 'topic')}`",
    "finished": "an event of an observer",
    "found": "a field of answers: what brokers have, beside what they denied",
    "listed": "used in f-strings of all rooms: `{listed(names)}`",
    "of_kind": "plug-ins of projects call it",
    "others": "the resources, or partitions, besides those that are named in fields of their own",
    "quoted": "used in f-strings of all rooms: `{quoted(name)}`",
    "started": "an event of an observer",
    "unguarded": "a guard that guards nothing, an adjective",
    "what": "what a rule would have checked, in the words of a message",
    "Partitions are offline.": "the text of a rule",
    "Partitions are under-replicated.": "the text of a rule",
}


def find_problems(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line of each problem in a file, the name or the sentence, and what is wrong with it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield from _check_name(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            yield from _check_docstring(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and VAGUE.fullmatch(node.id):
            yield node.lineno, node.id, "a variable is a noun"
        if isinstance(node, ast.ImportFrom) and TEST_MODULE.match(node.module or ""):
            yield (
                node.lineno,
                node.module or "",
                "tests share what is in tests/support, not in another test file",
            )


def _check_name(node: ast.FunctionDef) -> Iterator[tuple[int, str, str]]:
    decorators = {ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in node.decorator_list}
    is_test = node.returns is not None and ast.unparse(node.returns) == "bool"
    if is_test or node.name.startswith("__") or decorators & {"property", "cached_property", "fixture"}:
        return
    if TEST.match(node.name):
        yield (
            node.lineno,
            node.name,
            "a test is named by the unit and its result: `test_recreated_topic_is_reported`",
        )
    first, *following = node.name.lstrip("_").split("_")
    if not following and first not in VERBS_TOO and (IRREGULAR.fullmatch(first) or first.endswith("ed")):
        yield node.lineno, node.name, "a function is a verb with its object, not a participle"
    elif PREPOSITION.fullmatch(first):
        yield node.lineno, node.name, "a function is a verb with its object, not a preposition"


def _check_docstring(node: ast.FunctionDef | ast.ClassDef | ast.Module) -> Iterator[tuple[int, str, str]]:
    text = ast.get_docstring(node)
    if not text:
        return
    first, line = text.splitlines()[0], getattr(node, "lineno", 1)
    if QUESTION.match(first):
        yield line, first, "a docstring says what it does: `Return ...`, `Read ...`"
    elif first.startswith("See `") or (isinstance(node, ast.FunctionDef) and len(first.split()) <= SHORT):
        yield line, first, "a docstring that says no more than the name is left out"


def main() -> int:
    """Print the problems of the folders; 1 if there are any, or an exception that nothing needs."""
    needed, problems = set(), []
    for folder in sys.argv[1:] or FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for line, text, problem in find_problems(path):
                name = text.lstrip("_")
                needed.add(name)
                if name not in ALLOWED:
                    problems.append(f"{path.relative_to(ROOT)}:{line}: {text}: {problem}")
    if not sys.argv[1:]:
        problems += [
            f"{Path(__file__).name}: {name} is in ALLOWED and nowhere else"
            for name in ALLOWED.keys() - needed
        ]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
