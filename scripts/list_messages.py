"""List the strings that reach a user, as `file:line: sort: text`; with --check, check their words and stops.

    .venv/bin/python scripts/list_messages.py [--check]

Every string of two words or more is listed, except docstrings of what is neither a command nor a rule.
`{name}` stands for a value, `{…}` for an expression, whose own strings are listed too. `make lint` runs
the check; a message that is right all the same is in ALLOWED, with the reason.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkaform.core import errors
from kafkaform.core.printable import split_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("kafkaform", "schemas", "spark_validation")
ERRORS = {name for name in vars(errors) if name[0].isupper()}
SORTS = {
    "Diagnostic": "finding",
    "Finding": "finding",
    "RiskAssessment": "risk",
    "Note": "rule",
    "report": "error",
}
"""Sorts of the strings in a call; readers of manifests call `report` with each problem."""
KEYWORDS = {"help", "hint", "remedy", "suggestion"}
INTERNAL = re.compile(r"(re|struct)\.\w+|cast|TypeVar|LOG\.\w+|\w*[lL]ogger\.\w+")
"""Calls whose strings only programs and `--debug` show."""
MACHINE = (
    "(?:brokers?|clusters?|controllers?|coordinators?|servers?|machines?|groups?|topics?|Kafka|GitHub|Git)"
)
PROBLEMS = {
    "a machine does not tell, say or know: `does not report`, `could not read`": re.compile(
        rf"\b{MACHINE} (?:(?:does|do|did|can|may)(?: ?not)? )?(?:tells?|told|says?|said|knows?|knew)\b"
    ),
    "name who: another client, another team, no member": re.compile(
        r"\b(?:(?:no|some|any|every)body|whoever)\b"
    ),
    "write `is not a ...`, or `has no ...`": re.compile(r"(?<!here )\b(?:is|are) no (?!longer\b|more\b)"),
    "write `earlier`, or `listed separately`": re.compile(r"\bof before\b|\btold apart\b"),
    "one full stop is enough": re.compile(r"(?<!\.)\.\.(?![./])"),
}
ALLOWED: Mapping[str, str] = {"is neither `.` nor `..`": "the two names that Kafka refuses"}
"""Parts of messages that are right, with the reason."""


class Message(NamedTuple):
    """A string that reaches a user: its place, its sort, and its text."""

    path: str
    line: int
    sort: str
    text: str


class _Collector(ast.NodeVisitor):
    def __init__(self, path: str) -> None:
        self.path, self.sort = path, "text"
        self.messages: list[Message] = []

    def _add(self, node: ast.expr | ast.stmt, text: str, sort: str = "") -> None:
        self.messages.append(Message(self.path, node.lineno, sort or self.sort, text))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        names = {ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in node.decorator_list}
        sorts = {"rule" if name.endswith("rule") else name for name in names} & {"command", "group", "rule"}
        if sorts and (text := ast.get_docstring(node)):
            self._add(node, re.sub(r"(?<!\n)\n(?!\n)", " ", text), "rule" if "rule" in sorts else "command")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if ast.unparse(node.targets[0]) != "_NOTES":
            self.generic_visit(node)
            return
        for note in re.split(r"\n\n(?=KF\d)", ast.literal_eval(node.value).strip()):
            self._add(node, re.sub(r"(?<!\n)\n(?!\n)", " ", note), "rule")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and "TypeAlias" not in ast.unparse(node.annotation):
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        if INTERNAL.fullmatch(name):
            return
        name = name.split(".")[-1]
        is_error = name in ERRORS or name.endswith(("Error", "BadParameter", "ClickException"))
        sort = "error" if is_error else SORTS.get(name, self.sort)
        self.visit(node.func)
        outer = self.sort
        for argument in [*node.args, *node.keywords]:
            keyword = getattr(argument, "arg", None)
            self.sort = keyword if keyword in KEYWORDS else sort
            self.visit(argument)
        self.sort = outer

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and re.search(r"[A-Za-z]", node.value) and " " in node.value:
            self._add(node, node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        text = ""
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = ast.unparse(part.value)
                text += "{" + (value if re.fullmatch(r"[\w.]+", value) else "…") + "}"
                self.visit(part.value)
            elif isinstance(part, ast.Constant):
                text += str(part.value)
        if " " in text and re.search("[A-Za-z]", re.sub(r"\{.*?\}", "", text)):
            self._add(node, text)


def list_messages(path: Path) -> Iterator[Message]:
    """Yield the messages of a module, a template, or a JSON Schema, from its first line to its last."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        collector = _Collector(name)
        collector.visit(ast.parse(text))
        yield from sorted(collector.messages, key=lambda message: message.line)
        return
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix == ".json":
            for description in re.findall(r'"description": "([^"]+)"', line):
                yield Message(name, number, "schema", description)
        elif prose := re.sub(r"<[^>]*>|\{[%#].*?[%#]\}|^\s*#", " ", line).strip():
            yield Message(name, number, "template", prose)


def find_problems(message: Message) -> Iterator[str]:
    """Yield what is wrong with the words, the full stops or the spaces of a message."""
    text, sort = message.text, message.sort
    yield from (problem for problem, pattern in PROBLEMS.items() if pattern.search(text))
    if sort in {"error", "finding", "risk", *KEYWORDS} - {"help"} and re.search(r"(?<!\.)\.$", text):
        yield "errors, findings, hints and reasons have no full stop at their end"
    if sort in {"command", "rule"} and len(text.split()) > 1 and not text.endswith((".", ":")):
        yield "documentation ends with a full stop"
    if sort not in {"template", "text"} and re.search(r"\w[,;:.]?  +(?!\[)\w", text):
        yield "one space is enough"
    if sort not in {"template", "schema"} and any(
        "`" in part for part, is_code in split_code(text) if not is_code
    ):
        yield "code stands between words: elsewhere it would be broken at its spaces"


def main() -> int:
    """Print the messages, or what is wrong with them; 1 if something is, or if an exception is not needed."""
    check, failures, needed = sys.argv[1:] == ["--check"], [], set()
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")))
    for path in (p for p in paths if p.suffix in {".py", ".yaml"} or p.match("schemas/*.json")):
        for message in list_messages(path):
            line = f"{message.path}:{message.line}: {message.sort}: {' '.join(message.text.split())}"
            if not check:
                print(line)
            elif problems := list(find_problems(message)):
                excuses = {part for part in ALLOWED if part in message.text}
                needed |= excuses
                failures += [] if excuses else [f"{line}\n    {problem}" for problem in problems]
    if check:
        failures += [
            f"{part!r} is in ALLOWED, and needed nowhere" for part in sorted(ALLOWED.keys() - needed)
        ]
    print("\n".join(failures), end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
