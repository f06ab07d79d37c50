"""Command lines of kafkaform in scripts and documents, held to what the real commands take."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import takewhile

import click

from kafkaform.cli.main import cli
from kafkaform.core.errors import UsageError

_PUNCTUATION = frozenset("();<>|&")


def calls(script: str) -> Iterator[list[str]]:
    """The arguments of every call of kafkaform in a text, as a shell would split them."""
    for line in re.sub(r"\\\n\s*", "", script).splitlines():
        code = re.sub(r"(?:^|\s)#.*", "", line)
        if "kafkaform " in code:
            yield from _calls(_words(code))


def _words(line: str) -> list[str]:
    words = shlex.shlex(re.sub(r"\s\d>", " >", line), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    return [*words]


def _calls(words: Sequence[str]) -> Iterator[list[str]]:
    for index, word in enumerate(words):
        if "$(" in word:  # in quotation marks, and so a word by itself
            yield from calls(word)
        elif re.fullmatch(r"(\S*/)?kafkaform", word) and re.match(
            r"-{0,2}[a-z]", "".join(words[index + 1 :])
        ):
            yield [*takewhile(lambda one: not _PUNCTUATION.issuperset(one), words[index + 1 :])]


def parse(arguments: Sequence[str], where: str) -> None:
    """Let click read the arguments, down to the last subcommand, and call nothing.

    Raises:
        AssertionError: A command, an option, an argument or a choice is not one that kafkaform has.
    """
    command: click.Command = cli
    remaining = [*arguments]
    try:
        while isinstance(command, click.Group):
            context, _, remaining = _read(command, remaining)
            if not remaining:  # `kafkaform --version`
                return
            name, found, remaining = command.resolve_command(context, remaining)
            assert found is not None, name
            command = found
        context, given, remaining = _read(command, remaining)
        for parameter in command.get_params(context):
            _check(parameter, given, context)
    except (click.UsageError, UsageError) as error:
        raise AssertionError(f"{where}: kafkaform {' '.join(arguments)}: {error}") from error
    assert context.allow_extra_args or not remaining, (
        f"{where}: kafkaform {' '.join(arguments)}: too much: {remaining}"
    )


def _read(command: click.Command, arguments: list[str]) -> tuple[click.Context, dict[str, object], list[str]]:
    context = command.context_class(command, info_name=command.name, **command.context_settings)
    given, remaining, _ = command.make_parser(context).parse_args(arguments)
    return context, given, remaining


def _check(parameter: click.Parameter, given: dict[str, object], context: click.Context) -> None:
    """Hold a parameter to being there, and to its choices; a shell's variable may be anything."""
    value = given.get(parameter.name or "")
    values = [
        item for item in (value if isinstance(value, list | tuple) else [value]) if isinstance(item, str)
    ]
    if isinstance(parameter, click.Argument) and parameter.required and not values:
        raise click.MissingParameter(ctx=context, param=parameter)
    if isinstance(parameter.type, click.Choice):
        for entry in values:
            if "$" not in entry:
                parameter.type.convert(entry, parameter, context)
