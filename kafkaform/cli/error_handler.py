"""What goes to stderr when something goes wrong: a line and a hint, no secret, a traceback on demand."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING

import click

from kafkaform.cli.terminal import colours, prose_width
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.core.printable import plain_quotes, printable, wrapped

if TYPE_CHECKING:
    from kafkaform.config.client_properties import Resolved

_GENERIC_ERROR = 1
_INDENT = "    "


class Complaints:
    """Says what went wrong in one run of the command line, and knows what must not be said."""

    def __init__(self) -> None:
        self._debug = False
        self._secrets: list[Resolved] = []

    def hide(self, resolved: Resolved) -> None:
        """Take the secrets of these client properties out of everything that is said from now on."""
        self._secrets.append(resolved)

    def debug(self) -> None:
        """Show tracebacks, requests, and what the Kafka clients log."""
        self._debug = True
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Redacting(self))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
        # Below this, AWS's client writes what it signs, session tokens among it.
        logging.getLogger("botocore").setLevel(logging.INFO)

    def redacted(self, text: str) -> str:
        """The text without a secret of this run."""
        if self._secrets:
            from kafkaform.config.client_properties import redact

            for resolved in self._secrets:
                text = redact(text, resolved)
        return text

    def tell(self, error: Exception | KeyboardInterrupt) -> int:
        """Say what went wrong; returns the exit code."""
        if self._debug:
            trace = "".join(traceback.format_exception(error))
            click.echo(self.redacted(trace), nl=False, err=True)
        match error:
            case click.exceptions.NoArgsIsHelpError():
                error.show()
                return UsageError.exit_code
            case click.UsageError():
                self._usage(error)
                return UsageError.exit_code
            case click.ClickException():
                self._say(error.format_message())
            case click.Abort() | KeyboardInterrupt():
                self._say("interrupted; nothing more was done")
            case KafkaformError():
                if isinstance(error, InvalidInput):
                    for problem in error.problems:
                        self._line(str(problem))
                self._say(error.message, error.hint)
                return error.exit_code
            case OSError() if error.strerror:
                self._say(f"{error.filename or 'the output'}: {error.strerror}")
            case _:
                hint = None if self._debug else "kafkaform --debug, then the command, shows the traceback"
                self._say(f"unexpected {type(error).__name__}: {error}", hint)
        return _GENERIC_ERROR

    def _usage(self, error: click.UsageError) -> None:
        called = error.ctx.command_path if error.ctx else "kafkaform"
        hint = f"see {called} --help"
        if isinstance(error, click.NoSuchOption) and error.option_name == "--debug":
            hint = "write it before the command: kafkaform --debug plan"
        elif isinstance(error, click.NoSuchOption) and error.ctx is not None and error.ctx.parent is None:
            from kafkaform.core.wording import command

            hint = f"write options after the command: {command('plan', options=[error.option_name])}"
        self._say(error.format_message(), hint)

    def _say(self, message: str, hint: str | None = None) -> None:
        label = click.style("Error:", fg="red", bold=True) if colours(sys.stderr) else "Error:"
        self._line(message, f"{label} ")
        if hint:
            # In our own words: nothing to hide.
            click.echo(_laid_out("hint: ", plain_quotes(printable(hint))), err=True)

    def _line(self, text: str, lead: str = "") -> None:
        # click would take the colours out again where no terminal is.
        told = plain_quotes(printable(self.redacted(text)))
        click.echo(_laid_out(lead, told), err=True, color=True if colours(sys.stderr) else None)


def _laid_out(lead: str, text: str) -> str:
    """A lead and text behind it: on a terminal in lines of its width, the further ones indented."""
    width = prose_width(sys.stderr)
    if width is None:
        return lead + text
    visible = click.unstyle(lead)
    first, *more = wrapped(visible + text, width, _INDENT)
    return "\n".join([lead + first.removeprefix(visible), *more])


class _Redacting(logging.Formatter):
    def __init__(self, complaints: Complaints) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._complaints = complaints

    def format(self, record: logging.LogRecord) -> str:
        return self._complaints.redacted(super().format(record))
