"""Secrets: references to them, which are written down, and their texts, which never are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from kafkaform.core.files import read_file
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HIDDEN = "<hidden>"
"""The replacement of a secret in output."""

_MAX_FILE_BYTES = 1 << 20
"""In bytes; keys and passwords are smaller."""
_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_FILE = re.compile(r"file:(\S.*)", re.DOTALL)


class MalformedReference(ValueError):  # noqa: N818 - names what is in the text
    """A `${…}` has neither of the two forms; the message does not quote the text around it."""


class UnreadableSecret(Exception):  # noqa: N818 - names what is wrong
    """The target of a reference cannot be read; the message contains no value."""


class Secret:
    """A text that only `reveal` returns: no output, plan, record or error can contain it by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text, for the one request that needs it."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, _spec: str) -> str:
        return HIDDEN

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: a pickle or a copy would contain the text."""
        raise TypeError("a secret cannot be pickled or copied")


class Reference(Value):
    """A reference to text outside the configuration that is read at use."""

    source: Literal["env", "file"]
    name: str

    def __str__(self) -> str:
        return f"${{{self.source}:{self.name}}}"

    def read(self, environ: Mapping[str, str], read_file: Callable[[str], str]) -> str:
        """Return the text that it refers to, as it is now.

        Args:
            environ: The environment variables.
            read_file: Returns the text of a file, as `read_secret_file` does; raises OSError or ValueError.

        Raises:
            UnreadableSecret: The variable is not set, or the file cannot be read.
        """
        if self.source == "env":
            if self.name not in environ:
                raise UnreadableSecret(f"the environment variable {self.name} is not set")
            return environ[self.name]
        try:
            text = read_file(self.name)
        except OSError as error:
            why = error.strerror or "it cannot be opened"
            raise UnreadableSecret(f"cannot read {self.name}: {why}") from None
        except ValueError:
            # A decoding error quotes bytes that may be the secret.
            raise UnreadableSecret(f"cannot read {self.name}: not UTF-8 text") from None
        # Editors end files with a line break, which is not a part of the secret.
        return text.removesuffix("\n").removesuffix("\r")


def parse_reference(body: str) -> Reference:
    """Parse the text between the braces of a `${…}`.

    Raises:
        MalformedReference: It has neither of the two forms.
    """
    if match := _ENV.fullmatch(body):
        return Reference("env", match.group(1))
    if match := _FILE.fullmatch(body):
        return Reference("file", match.group(1))
    # The body may be a part of a password, so the message does not quote it.
    raise MalformedReference("a ${…} that is neither ${env:NAME} nor ${file:PATH}")


def read_secret(reference: Reference) -> Secret:
    """Read a secret from the environment or the files of this process.

    Raises:
        UnreadableSecret: It cannot be read, is empty, or not UTF-8 text.
    """
    text = reference.read(os.environ, read_secret_file)
    if not text:
        raise UnreadableSecret(f"{reference} is empty")
    # Python keeps the bytes of a variable that is not UTF-8 as surrogates.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UnreadableSecret(f"{reference} is not UTF-8 text")
    return Secret(text)


def read_secret_file(path: str) -> str:
    """Read a UTF-8 file of at most 1 MiB.

    Raises:
        OSError: It cannot be read, or is larger.
        ValueError: It is not UTF-8.
    """
    return read_file(Path(path).expanduser(), _MAX_FILE_BYTES).decode("utf-8")
