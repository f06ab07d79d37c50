"""Errors on stderr: a line and a hint, without secrets; a traceback with --debug."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING

import click

from kafkaform.cli.terminal import colours, prose_width
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.core.printable import MAX_LINE_LENGTH, clipped, wrap_text

if TYPE_CHECKING:
    from kafkaform.config.client_properties import Resolved

_GENERIC_ERROR = 1
_INDENT = "    "


class ErrorHandler:
    """The reporter of the errors of one run, which redacts its secrets."""

    def __init__(self) -> None:
        self._debug = False
        self._secrets: list[Resolved] = []

    def hide(self, resolved: Resolved) -> None:
        """Redact the secrets of these client properties in all later output."""
        self._secrets.append(resolved)

    def debug(self) -> None:
        """Show tracebacks, requests, and the logs of the Kafka clients."""
        self._debug = True
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Redacting(self))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
        # At DEBUG, AWS's client logs the requests it signs, with session tokens.
        logging.getLogger("botocore").setLevel(logging.INFO)

    def redact(self, text: str) -> str:
        """Return the text with the secrets of this run redacted."""
        if self._secrets:
            from kafkaform.config.client_properties import redact

            # A run on several clusters has several sets of secrets, and an error may contain those of any.
            for resolved in self._secrets:
                text = redact(text, resolved)
        return text

    def tell(self, error: Exception | KeyboardInterrupt) -> int:
        """Print an error; returns the exit code."""
        if self._debug:
            # A traceback contains the messages of all causes, so it is redacted as a whole.
            trace = "".join(traceback.format_exception(error))
            click.echo(self.redact(trace), nl=False, err=True)
        match error:
            # A group without a command prints its help; click raises this as an error. It must be matched
            # before its base class UsageError.
            case click.exceptions.NoArgsIsHelpError():
                error.show()
                return UsageError.exit_code
            case click.UsageError():
                self._print_usage_error(error)
                return UsageError.exit_code
            case click.ClickException():
                self._print_error(error.format_message())
            # click's main raises Abort for a KeyboardInterrupt; a Ctrl-C outside of it arrives as it is.
            case click.Abort() | KeyboardInterrupt():
                self._print_error("interrupted; nothing more was done")
            case KafkaformError():
                if isinstance(error, InvalidInput):
                    for problem in error.problems:
                        self._print_line(str(problem))
                self._print_error(error.message, error.hint)
                return error.exit_code
            # Such as a full disk: a traceback would not help.
            case OSError() if error.strerror:
                self._print_error(f"{error.filename or 'the output'}: {error.strerror}")
            case _:
                hint = None if self._debug else "for the traceback, write --debug right after kafkaform"
                self._print_error(f"unexpected {type(error).__name__}: {error}", hint)
        return _GENERIC_ERROR

    def _print_usage_error(self, error: click.UsageError) -> None:
        called = error.ctx.command_path if error.ctx else "kafkaform"
        hint = f"see `{called} --help`"
        if isinstance(error, click.NoSuchOption) and error.option_name == "--debug":
            hint = "write it before the command: `kafkaform --debug plan`"
        elif isinstance(error, click.NoSuchOption) and error.ctx is not None and error.ctx.parent is None:
            from kafkaform.core.wording import command

            hint = f"write options after the command: {command('plan', options=[error.option_name])}"
        self._print_error(error.format_message(), hint)

    def _print_error(self, message: str, hint: str | None = None) -> None:
        label = click.style("Error:", fg="red", bold=True) if colours(sys.stderr) else "Error:"
        self._print_line(message, f"{label} ")
        if hint:
            # Hints are our own text, without secrets.
            click.echo(_wrap("hint: ", clipped(hint, MAX_LINE_LENGTH)), err=True)

    def _print_line(self, text: str, lead: str = "") -> None:
        # Without `color`, click removes the colours where stderr is no terminal.
        line = clipped(self.redact(text), MAX_LINE_LENGTH)
        click.echo(_wrap(lead, line), err=True, color=True if colours(sys.stderr) else None)


def _wrap(lead: str, text: str) -> str:
    """Join a lead and a text; on a terminal, wrap them with an indent."""
    width = prose_width(sys.stderr)
    if width is None:
        return lead + text
    visible = click.unstyle(lead)
    first, *continuation = wrap_text(visible + text, width, _INDENT)
    return "\n".join([lead + first.removeprefix(visible), *continuation])


class _Redacting(logging.Formatter):
    def __init__(self, error_handler: ErrorHandler) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._error_handler = error_handler

    def format(self, record: logging.LogRecord) -> str:
        return self._error_handler.redact(super().format(record))
