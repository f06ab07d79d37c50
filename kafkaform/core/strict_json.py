"""JSON documents of our own formats, read strictly, as I-JSON (RFC 7493) defines it.

Duplicate keys are refused, as readers of JSON differ in which one they use. So is half of a surrogate pair:
no encoding can represent it, so a request to a broker or a line of a report would fail later.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec

from kafkaform.core.printable import clipped, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.core.errors import KafkaformError

Object: TypeAlias = dict[str, Any]

_MAX_INTEGER = 2**63
"""No number of Kafka's is larger."""
NEWER_HINT = "use the version of kafkaform that made it, or a newer one"
"""The hint for a document whose format is newer than what this version reads."""
_MAX_DIGITS = 400
_MAX_PROBLEM = 300
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BOM = "\ufeff"


class MalformedJson(ValueError):  # noqa: N818 - a state of the text, not an accident
    """Text that is not JSON, or not strict JSON.

    Attributes:
        line: Its line, from 1; 0 if unknown.
        column: Its column, from 1; 0 if unknown.
    """

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        super().__init__(problem)
        self.problem, self.line, self.column = problem, line, column


class _BadToken(Exception):  # noqa: N818 - internal: translated into MalformedJson
    """A number that is not accepted, and why."""


def parse_json(text: str, *, fractions: bool = False) -> Any:
    """Parse text as I-JSON; whole numbers have at most 64 bits.

    Args:
        fractions: Whether numbers may have a fraction. Otherwise they must be whole: a float would silently
            lose digits above 2**53.

    Raises:
        MalformedJson: It is not strict JSON.
    """
    if text.startswith(_BOM):
        raise MalformedJson("it begins with a byte order mark; save it as UTF-8 without one", 1, 1)
    parse_number = _parse_fraction if fractions else _refuse_fraction
    try:
        document = json.loads(
            text,
            parse_int=_parse_integer,
            parse_float=parse_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_build_object,
        )
    except json.JSONDecodeError as error:
        raise MalformedJson(f"not JSON: {error.msg}", error.lineno, error.colno) from error
    except _BadToken as error:
        token, problem = error.args
        raise _locate(text, problem, lambda found: found == token) from error
    # json.loads recurses.
    except RecursionError as error:
        raise MalformedJson("its values are nested too deeply") from error
    if _SURROGATE.search(text):
        broken = _locate(text, "a character is half of a surrogate pair", _has_half_pair)
        if broken.line:
            raise broken
    return document


def parse_document(
    text: str, file: str, error: type[KafkaformError], *, noun: str, again: str, fractions: bool = False
) -> Object:
    """Parse a document that has a `format_version`.

    Args:
        text: The content of the file.
        file: Its name, for messages.
        error: The class of the error.
        noun: The document, such as "plan".
        again: The hint how to make another one.
        fractions: Whether it may have fractions.

    Raises:
        error: It is not such a document.
    """
    where = printable(file)
    try:
        document = parse_json(text, fractions=fractions)
    except MalformedJson as malformed:
        position = f"{where}:{malformed.line}:{malformed.column}" if malformed.line else where
        raise error(f"{position}: not a valid {noun}: {malformed.problem}", hint=again) from malformed
    version = document.get("format_version") if isinstance(document, dict) else None
    # type() and not isinstance(), as True is an int to Python.
    if not isinstance(document, dict) or type(version) is not int or version < 1:
        raise error(f"{where}: not a valid {noun}: it has no format_version", hint=again)
    return document


def encode_canonical(value: object) -> bytes:
    """Return the JSON of a value with sorted keys, no spaces and ASCII only; fractions are not supported."""
    # msgspec takes a third of the time of json.dumps, but escapes only what it must.
    try:
        encoded = msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:
        encoded = b"\x7f"
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def describe_violation(file: str, noun: str, problem: str) -> str:
    """Return the message for a document that violates its schema."""
    return f"{printable(file)}: not a valid {noun}: {clipped(problem, _MAX_PROBLEM)}"


def _locate(text: str, problem: str, is_bad: Callable[[str], bool]) -> MalformedJson:
    """Return the error for the first token of valid JSON that is bad; without a place if there is none."""
    for match in _TOKEN.finditer(text):
        if is_bad(match.group()):
            before = text[: match.start()]
            return MalformedJson(problem, before.count("\n") + 1, match.start() - before.rfind("\n"))
    return MalformedJson(problem)


def _has_half_pair(token: str) -> bool:
    if not _SURROGATE.search(token):
        return False
    # Whole pairs are one character once they are parsed.
    return any("\ud800" <= character <= "\udfff" for character in json.loads(token))


def _build_object(pairs: list[tuple[str, Any]]) -> Object:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise MalformedJson(f"duplicate key '{clipped(duplicate, 60)}'")
    return document


def _parse_integer(number: str) -> int:
    # Python refuses to parse thousands of digits.
    if len(number) > _MAX_DIGITS or abs(value := int(number)) > _MAX_INTEGER:
        raise _BadToken(number, f"the number {clipped(number, 40)} is too large")
    return value


def _parse_fraction(number: str) -> float:
    value = float(number)
    if not isfinite(value):
        raise _BadToken(number, f"the number {clipped(number, 40)} is too large")
    return value


def _refuse_fraction(number: str) -> NoReturn:
    raise _BadToken(number, f"{clipped(number, 40)} is not a whole number")


# Python's json accepts NaN and Infinity, which are not JSON.
def _refuse_constant(name: str) -> NoReturn:
    raise _BadToken(name, f"{name} is not a number of JSON")
