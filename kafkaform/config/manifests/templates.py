r"""Texts that are templates: Helm, Jinja and others put values into them before they are read as YAML.

Taken literally, `{{ .Values.user }}` would be the name of a principal that gets rights. A name that really
has such a part is written with an escape in double quotes, as `kafkaform import` does: `"\x7bteam}"`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kafkaform.core.errors import Problem
from kafkaform.core.model import Location
from kafkaform.core.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.config.manifests.yaml12 import Document, Path

_PLACEHOLDER = r"\{ ?\w[\w.-]* ?\}"
_OTHER_PLACEHOLDERS = r"|%[A-Za-z_]\w*%|\[\[ ?[.\w][\w .-]*\]\]|(?<![?P\w])<[A-Z][A-Z0-9_-]*>"
_MARK = re.compile(
    r"\$\{\{|\{\{|\{[%#]|<%|\$\{|%\{|\$\([A-Za-z_]\w*\)|(?<![\w$])\$[A-Z_][A-Z0-9_]*\b|"
    + _PLACEHOLDER
    + _OTHER_PLACEHOLDERS
)
_MARK_IN_LINE = re.compile(
    r"\$\{\{|\{\{|\{[%#]|<%|\$\{|%\{|(?<=[\w.-])"
    + _PLACEHOLDER
    + "|"
    + _PLACEHOLDER
    + r"(?=[\w.-])"
    + _OTHER_PLACEHOLDERS
)
"""In a line that is no valid YAML, `{a}` may also be a mapping."""
_DIRECTIVE = re.compile(r"\s*(?:- +)?(?:\{\{|\{[%#]|<%)")
"""Matches a line that begins with a statement of a template, which no valid YAML does outside of a text."""
_GO = re.compile(
    r"\{\{-|-\}\}|\{\{\s*(?:[.$]|(?:if|range|end|else|with|include|template|define|block|tpl|toYaml)\b)"
)
_LANGUAGES = {
    "{{": ("Jinja, Mustache or Helm", "jinja2 TEMPLATE VALUES"),
    "{%": ("Jinja", "jinja2 TEMPLATE VALUES"),
    "{#": ("Jinja", "jinja2 TEMPLATE VALUES"),
    "<%": ("ERB", "erb TEMPLATE"),
    "${{": ("OpenShift or GitHub Actions", "oc process -f TEMPLATE -o yaml"),
    "%{": ("Terraform's templatefile", "terraform console"),
    "$(": ("Kustomize", "kubectl kustomize DIR"),
    "$": ("envsubst", "envsubst < TEMPLATE"),
}
"""The usual languages of a mark, and a command that renders a template; the first mark that fits is taken."""
_CONFLICT = re.compile(r"^(<{7}|>{7})(?: .*)?$", re.MULTILINE)


class TemplateMark(NamedTuple):
    """A part of a text by which it is a template.

    Attributes:
        mark: The part, such as `{{` or `{team}`.
        message: What the text is, and how to render it.
    """

    mark: str
    at: int
    message: str

    @property
    def is_placeholder(self) -> bool:
        """True if it is a name in braces or other signs."""
        return self.mark[-1] in "}%]>"


def find_template(text: str) -> TemplateMark | None:
    """Return the first part of a text by which it is a template; None if it is none."""
    return _explain_mark(_MARK.search(text), text)


def find_placeholder(document: Document, path: Path, value: object) -> TemplateMark | None:
    """Return the placeholder that YAML reads as a mapping or a list, such as `{team}`; None for others."""
    match value:
        # A mapping without braces begins where its first key does.
        case dict() if [*value.values()] == [None] and (
            document.locate(path) != document.locate([*path, *value], key=True)
        ):
            return find_template(f"{{{next(iter(value))}}}")
        case [[str() as name]]:
            return find_template(f"[[{name}]]")
        case _:
            return None


def explain_source(text: str, file: str, lines: Iterable[int]) -> Problem | None:
    """Return the problem of an invalid YAML text that is a template; None if it does not look like one.

    Args:
        file: The name of the file, for the location.
        lines: The numbers of the lines where a parser stopped, from 0.
    """
    source = text.splitlines()
    stopped = [number for number in lines if number < len(source)]
    directives = (number for number, line in enumerate(source) if _DIRECTIVE.match(line))
    for number in (*stopped, *directives):
        line = source[number]
        template = None if line.lstrip().startswith("#") else _explain_mark(_MARK_IN_LINE.search(line), text)
        if template is not None:
            return Problem(template.message, Location(file, number + 1, template.at + 1))
    return None


def find_conflict(text: str, file: str) -> Problem | None:
    """Return the problem of a text with the markers of a merge conflict."""
    markers = [*_CONFLICT.finditer(text)]
    if len({marker[1] for marker in markers}) < 2:  # one at its beginning, and one at its end
        return None
    location = Location(file, text.count("\n", 0, markers[0].start()) + 1)
    return Problem("merge conflict marker", location, "keep one side, and delete the lines with the markers")


def escape_templates(text: str, code: str, *, references: bool = False) -> str:
    r"""Return YAML or JSON whose quoted texts have escapes where they would be taken for templates.

    Args:
        text: The YAML or JSON; only texts in double quotes look like templates.
        code: The beginning of an escape with two hexadecimal digits, such as `\x`.
        references: Whether `${env:NAME}` and `${file:PATH}` are references to secrets.
    """
    at = 0
    while mark := _MARK.search(text, at):
        at = mark.start()
        if references and text.startswith(("${env:", "${file:"), at):
            at += 1
            continue
        text = f"{text[:at]}{code}{ord(text[at]):02x}{text[at + 1 :]}"
    return text


def _explain_mark(match: re.Match[str] | None, text: str) -> TemplateMark | None:
    if match is None:
        return None
    mark = match[0]
    if mark == "{{" and _GO.search(text):
        language, command = "Helm or another Go template", "helm template CHART"
    else:
        language_command = next((known for name, known in _LANGUAGES.items() if mark.startswith(name)), None)
        if language_command is None:
            message = f"this is a template ({quoted(mark)} is a placeholder): write the value instead"
            return TemplateMark(mark, match.start(), message)
        language, command = language_command
    message = f"this is a template ({language}): render it first, e.g. {command} > rendered.yaml"
    return TemplateMark(mark, match.start(), message)
