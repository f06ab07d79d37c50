"""What is wrong with text that is no YAML, in the words of whoever wrote it, and what to do about it.

The parser says what it expected next ("did not find expected key"), which is true and of no help: what to
mend is nearly always an indentation, a missing space after a colon, or a value that needs quotes. libyaml
has no codes for its errors, so that its texts are what tells them apart; one that is not known is shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.core.errors import Problem
from kafkaform.core.model import Location
from kafkaform.core.spelling import quoted
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    import yaml

_QUOTE = "put the value in quotes"
_PAIR = "write `name: value`, with a space after the colon"
_PLAIN = {
    "did not find expected node content": ("unexpected {}", f"remove it, or {_QUOTE}"),
    "found character that cannot start any token": ("a value cannot begin with {}", _QUOTE),
    "found unknown escape character": (
        "unknown escape in double quotes",
        "use single quotes, in which a backslash is just that",
    ),
    "found undefined alias": (
        "the alias has no anchor",
        "define it with & above in the same document, or quote the value if * is meant as text",
    ),
    "did not find expected <document start>": (
        "this line is indented less than the first one, or follows the end of the document",
        "begin all of apiVersion, kind, metadata and spec in column 1",
    ),
}
"""What the parser says where the place is all that there is to know, in our words, with a hint."""
_NO_SPACE = re.compile(r"\s*(?:- +)*[A-Za-z][\w.-]*:[^\s:/]")
_VALUE_BEFORE = re.compile(r"(?:[^'\"#]*[^\s'\"#])?:\s+\S")


def syntax_problem(error: yaml.MarkedYAMLError, file: str, text: str) -> Problem:
    """The problem of a file that the parser refused."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem(f"not valid YAML: {_raw(error)}", Location(file))
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    place = Location(file, mark.line + 1, mark.column + 1)
    if "\t" in line[: _indent(line)]:
        return Problem("a tab cannot indent YAML", place, "indent with spaces")
    char = line[mark.column : mark.column + 1]
    opened = error.context_mark
    start = Location(file, opened.line + 1, opened.column + 1) if opened is not None else place
    match error.problem:
        case "mapping values are not allowed in this context":
            return _second_colon(lines, mark.line, mark.column, place)
        case "did not find expected key" | "did not find expected '-' indicator":
            return _outside(lines, mark.line, place)
        case "found unexpected end of stream":
            return Problem("a quote is opened and never closed", start, "close it, or quote the whole value")
        case "did not find expected ',' or '}'" | "did not find expected ',' or ']'":
            message = f"a ',' or '{error.problem[-2]}' is missing before this"
            return Problem(
                message, place, f"the bracket is opened in line {start.line}, column {start.column}"
            )
        case "did not find expected node content" if not char:
            return Problem("the file ends inside of brackets", place, "close them")
        case "could not find expected ':'":
            dashes = set(_at(lines, start.line - 1).strip()) == {"-"}
            hint = "a line of exactly three dashes parts documents" if dashes else _PAIR
            return Problem("this line has no value", start, hint)
        case problem if problem in _PLAIN:
            message, hint = _PLAIN[problem]
            return Problem(message.format(quoted(char)), place, hint)
        case _:
            return Problem(f"not valid YAML: {_raw(error)}", place)


def _second_colon(lines: list[str], number: int, column: int, place: Location) -> Problem:
    """A colon where no key can stand: after a value, or in a line that goes on with the one above."""
    if _VALUE_BEFORE.match(lines[number][:column].removeprefix("- ")):
        return Problem("the value has a ': ' in it", place, _QUOTE)
    above = _above(lines, number)
    if above is None:
        return Problem("a key cannot stand here", place, _PAIR)
    if _NO_SPACE.match(lines[above]):
        colon = Location(place.file, above + 1, lines[above].index(":") + 1)
        return Problem("there is no space after this colon", colon, _PAIR)
    if _indent(lines[number]) > _indent(lines[above]):
        line = Location(place.file, number + 1, _indent(lines[number]) + 1)
        message = f"this line is indented deeper than line {above + 1}, which has a value already"
        return Problem(message, line, _spaces(_indent(lines[above])))
    return Problem("a key cannot stand here", place, f"look at line {above + 1}: is its quote closed?")


def _outside(lines: list[str], number: int, place: Location) -> Problem:
    """A line that belongs to none of the mappings and lists around it."""
    indent = _indent(_at(lines, number))
    levels = sorted({_indent(line) for line in lines[:number] if _says_something(line)})
    if levels and indent not in levels:
        near = min(levels, key=lambda level: (abs(level - indent), -level))
        line = Location(place.file, place.line, indent + 1)
        message = f"this line is indented by {counted(indent, 'space')}, and no line above it is"
        return Problem(message, line, f"{_spaces(near)}, like the lines that it belongs to")
    return Problem("this does not go on with what is above", place, "check indentation, dashes and quotes")


def _spaces(number: int) -> str:
    return f"indent it by {counted(number, 'space')}" if number else "begin it in column 1"


def _above(lines: list[str], number: int) -> int | None:
    return next((above for above in range(number - 1, -1, -1) if _says_something(lines[above])), None)


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _at(lines: list[str], number: int) -> str:
    return lines[number] if number < len(lines) else ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _raw(error: yaml.MarkedYAMLError) -> str:
    return " ".join(" ".join(part for part in (error.context, error.problem) if part).split())
