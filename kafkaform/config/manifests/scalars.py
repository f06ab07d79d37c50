"""The text of a value in a manifest, written for people, and as its place and the scalar before it were."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import yaml

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ConfigType

if TYPE_CHECKING:
    from kafkaform.config.manifests.edit_layout import Scalar
    from kafkaform.core.config_values import ConfigKey


_WHOLE_NUMBER = frozenset({ConfigType.INT, ConfigType.LONG, ConfigType.SHORT})
_PLAIN_WORD = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./,-]*[A-Za-z0-9_./-])?", re.ASCII)
_PLAIN_AMOUNT = re.compile(
    r"[0-9]+(?:kB|[KMGT]iB|[MGT]B)|(?:[0-9]{1,19}(?:\.[0-9]{1,19})?(?:d|h|ms|m|s))+", re.ASCII
)


# Words that this project's YAML 1.2, or the YAML 1.1 of other readers, takes for something else than text.
_NO_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def written(key: ConfigKey | None, value: str) -> str | int | bool:
    """A value of a config as people write it: in the largest unit that fits, a number, true or false."""
    shown = kafka_configs.human(key, value).replace(" ", "") if key is not None else value
    if key is None:
        return value
    if shown != value and kafka_configs.equal(key, shown, value):
        return shown
    value = kafka_configs.observed(key, value)
    if key.type in _WHOLE_NUMBER and value.removeprefix("-").isdecimal():
        return int(value)
    if key.type is ConfigType.BOOLEAN and value in {"true", "false"}:
        return value == "true"
    return value


def is_plainly_text(text: str) -> bool:
    """Whether a text needs no quotes to be taken for text, by readers of YAML 1.1 and 1.2 alike."""
    return bool(
        _PLAIN_AMOUNT.fullmatch(text) or (_PLAIN_WORD.fullmatch(text) and text.lower() not in _NO_TEXT)
    )


Plain: TypeAlias = str | int | bool | None
"""A scalar before it is written; None is null."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", re.ASCII)
_WHOLE = re.compile(r"[-+]?[0-9]+", re.ASCII)
_AMOUNT = re.compile(r"[0-9]+(?:\.[0-9]+)?( ?[A-Za-z]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Style:
    """How scalars are written at one place: between the brackets of a flow collection, or as JSON."""

    flow: bool = False
    json: bool = False

    def scalar(self, value: Plain, like: Scalar | None = None) -> str:
        """A scalar; with the quotes of the one that it replaces, if that has some."""
        quote = like.style if like is not None and like.style in {"'", '"'} else '"' if self.json else ""
        if value is None:
            return "null"
        if not isinstance(value, str):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            return f"{like.style}{text}{like.style}" if like is not None and like.style == quote else text
        if not quote and self._needs_no_quotes(value):
            return value
        if quote == "'" and value.isprintable() and "${" not in value:
            return "'" + value.replace("'", "''") + "'"
        return _double_quoted(value)

    def _needs_no_quotes(self, text: str) -> bool:
        if _NUMBER.fullmatch(text) or _AMOUNT.fullmatch(text):
            return True
        return is_plainly_text(text) and not (self.flow and "," in text)


def _double_quoted(text: str) -> str:
    quoted: str = yaml.dump(text, default_style='"', width=float("inf"), allow_unicode=text.isprintable())
    # Manifests refuse ${…} as a slip; in double quotes this is an escape.
    return quoted.removesuffix("\n").replace("${", r"\x24{")


def respelled(key: ConfigKey | None, value: str, old: str | None) -> Plain:
    """The value of a config in the unit of the one that it replaces, where people would count in it.

    It has to be a whole number of them, and less than two of the unit that it is written in otherwise: where
    24h stood, one day is 24h, but a week is 7d.
    """
    natural = written(key, value)
    if key is None or key.unit is None or old is None:
        return natural
    if _WHOLE.fullmatch(old):
        return int(value) if _WHOLE.fullmatch(value) else natural
    unit = _AMOUNT.fullmatch(old)
    if unit is None or not value.isdecimal():
        return natural
    larger = _AMOUNT.fullmatch(str(natural))
    if larger is not None and int(value) >= 2 * _bytes_or_ms(key, larger[1]) > 2 * _bytes_or_ms(key, unit[1]):
        return natural
    number, rest = divmod(int(value), _bytes_or_ms(key, unit[1]))
    return natural if rest or not number else f"{number}{unit[1]}"


def _bytes_or_ms(key: ConfigKey, unit: str) -> int:
    return int(kafka_configs.canonical(key, f"1{unit}"))
