"""Parts of texts that can be pasted: lines of a manifest, and commands."""

import re
import shlex
from collections.abc import Iterator
from textwrap import indent
from typing import cast

import click

from kafkaform.cli.main import COMMANDS, LazyGroup
from kafkaform.config.manifests.loader import VERBATIM
from kafkaform.config.manifests.structure import check_structure
from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.core.errors import Problem
from kafkaform.core.printable import split_code
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import KINDS
from kafkaform.resources.consent import ANNOTATION, parse_annotation

_LINE = re.compile(r'(?<![\w./-])([A-Za-z][\w./-]*): (\{[^}]*\}|"(?:[^"\\]|\\.)*"|[^\s,;`]+)')
_VALUE = re.compile(r'[{"\d]|(?:true|false|null)\b')
"""What only a value begins with, not the rest of a sentence."""
_PATH = re.compile(r"\b(?:config|client|members|offsets)\.\w|\bset [\w.]+ to\b")
"""What a reader has to turn into YAML: `declare client.session.timeout.ms`, `set keyed to true`."""
_PROPERTY = re.compile(r"[\w.]+=[\w.]+")
_CLIENTS = {"auto.offset.reset=earliest", "partitioner=murmur2_random"}
"""Settings of applications, which are no manifests."""
_COMMAND = re.compile(r"kafkaform ([a-z-]+)")
_TOOL = re.compile(
    r"kafka-transactions\.sh --bootstrap-server HOST:PORT "
    r"(?:abort --topic \S+ --partition \d+ --start-offset \d+|describe-producers --topic \S+ --partition \d+)"
    r"|kafka-configs\.sh --bootstrap-server HOST:PORT --alter --entity-type (?:topics|brokers) "
    r"(?:--entity-name \S+|--entity-default) --delete-config [a-z.,]+"
)
"""Commands of Kafka's own tools, as TransactionsCommand and ConfigCommand take them."""
_KINDS = {"Topic": "topic", "ConsumerGroup": "consumergroup"}


FIELDS = {kind: {*load_schema(name)["$defs"]["spec"]["properties"]} for kind, name in _KINDS.items()}
"""The fields that a manifest's spec may have."""
WORDS = {
    "KF701": "correct the name, declare the topic, or waive: a choice",
    "KF702": "correct the name, declare the subject, or waive: a choice",
    "KF601": "the principals that need it are for its owners to name",
    "KF602": "which delimiter names have is for their owners to say",
    "KF603": "list the topic, or leave the list out: a choice",
    "KF604": "correct the name, remove the right, or declare the topic: a choice",
    "KF612": "which operation is meant is for its author to say",
    "KF613": "which clients are meant is for its author to say",
    "KF611": "remove the right, or extend the limit: a choice",
    "KF605": "which of two rights goes is for their owners to say",
    "KF606": "remove the right, or add the topic to the group: a choice",
    "KF607": "whose manifest declares it is for the teams to say",
    "KF608": "the right goes with the topic",
    "KF609": "which of two rights goes is for their owners to say",
    "KF610": "which prefix is meant is for its author to say",
    "KF101": "a name is for its author to choose",
    "KF102": "which of two names goes is for their owners to say",
    "KF103": "a name is for its author to choose",
    "KF106": "which topics need fewer partitions is for their owners to say",
    "KF114": "which topics are merged is for their owners to say",
    "KF116": "how many are needed depends on the traffic",
    "KF118": "which topic is meant is for its author to say",
    "KF117": "which of the two is meant is not known",
    "KF201": "members, partitions or a waiver: a choice",
    "KF202": "members or partitions: a choice",
    "KF205": "the application sets it",
    "KF210": "declare it, mend the name, or waive: a choice",
    "KF215": "declare it, mend the name, or wait: a choice",
    "KF301": "on the controllers' machines",
    "KF302": "on the brokers' machines",
    "KF304": "on the brokers' machines",
    "KF305": "on the brokers' machines",
    "KF402": "a new topic",
    "KF403": "a copy of the records",
    "KF404": "smaller steps: which, is for the author to say",
    "KF407": "find an application",
    "KF504": "the application sets it",
}
"""Rules that suggest neither a line of a manifest nor a command, with the reason."""


def find_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a manifest that a text has, each with its key."""
    for match in _LINE.finditer(text):
        key, value = match.groups()
        if key == ANNOTATION or any(key in fields for fields in FIELDS.values()) or _VALUE.match(value):
            yield key, match[0]


def _is_manifest_line(key: str, line: str) -> bool:
    """Return whether the line can stand below `spec:`, or `metadata.annotations:`, as it is."""
    if key == ANNOTATION:
        problems: list[Problem] = []
        (document,) = read_documents(line.encode(), "f", problems.append, verbatim=VERBATIM)
        _, bad = parse_annotation(cast("dict[str, str]", document.data)[ANNOTATION])
        return not problems and not bad
    return any(_fits(kind, line) for kind, fields in FIELDS.items() if key in fields)


def _fits(kind: str, line: str) -> bool:
    problems: list[Problem] = []
    text = f"apiVersion: kafkaform/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n{indent(line, '  ')}"
    documents = read_documents(text.encode(), "f", problems.append, verbatim=VERBATIM)
    if problems or check_structure(documents[0], _KINDS[kind])[0]:
        return False
    spec = cast("dict[str, dict[str, object]]", documents[0].data)["spec"]
    KINDS[kind].normalise(spec, documents[0].create_reporter(("spec",), problems))
    return not problems


def find_commands(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the verb of each command that a text names, and its arguments if it is marked as code."""
    for piece, is_code in split_code(text):
        for match in _COMMAND.finditer(piece):
            yield match[1], piece[match.end() :] if is_code else None


def parse_command(verb: str, arguments: str) -> None:
    """Parse the arguments of a command; raises if it does not take them."""
    command = LazyGroup("kafkaform").get_command(click.Context(click.Command("x")), verb)
    assert command is not None, verb
    command.make_context(verb, shlex.split(arguments))


def check_suggestion(text: str) -> int:
    """Check everything in a suggestion that looks like YAML or like a command; return how much that is."""
    lines = list(find_lines(text))
    for key, line in lines:
        assert _is_manifest_line(key, line), f"{line!r} in {text!r}"
    assert {*_PROPERTY.findall(text)} <= _CLIENTS, text
    assert not _PATH.search(text), text
    tools = _TOOL.findall(text)
    checked = _TOOL.sub("", text)
    commands = list(find_commands(text))
    for verb, arguments in commands:
        assert verb in COMMANDS, text
        if arguments is not None:
            parse_command(verb, arguments)
            checked = checked.replace(arguments, "")
    assert {*re.findall(r"--[a-z-]+", checked)} <= {"--target"}, f"an option without its command: {text!r}"
    return len(lines) + len(tools) + sum(arguments is not None for _, arguments in commands)
