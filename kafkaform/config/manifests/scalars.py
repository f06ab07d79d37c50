"""The text of values in manifests: in readable units, and in the style of their surroundings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import yaml

from kafkaform.config.manifests.templates import escape_templates, find_template
from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ConfigType

if TYPE_CHECKING:
    from kafkaform.core.config_values import ConfigKey


_WHOLE_NUMBER = frozenset({ConfigType.INT, ConfigType.LONG, ConfigType.SHORT})
_UNQUOTED_WORD = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./,-]*[A-Za-z0-9_./-])?", re.ASCII)
_UNQUOTED_AMOUNT = re.compile(
    r"[0-9]+(?:kB|[KMGT]iB|[MGT]B)|(?:[0-9]{1,19}(?:\.[0-9]{1,19})?(?:d|h|ms|m|s))+", re.ASCII
)


# Words that YAML 1.2, or the YAML 1.1 of other readers, does not resolve to text.
_NO_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def format_value(key: ConfigKey | None, value: str) -> str | int | bool:
    """Format the value of a config for a manifest: in the largest exact unit, a number, true or false."""
    shown = kafka_configs.human(key, value).replace(" ", "") if key is not None else value
    if key is None:
        return value
    # `human` rounds for reports: a unit is used only if it stands for exactly the same value.
    if shown != value and kafka_configs.equal(key, shown, value):
        return shown
    value = kafka_configs.normalise_observed(key, value)
    if key.type in _WHOLE_NUMBER and value.removeprefix("-").isdecimal():
        return int(value)
    if key.type is ConfigType.BOOLEAN and value in {"true", "false"}:
        return value == "true"
    return value


def is_plainly_text(text: str) -> bool:
    """Return whether an unquoted text is text in both YAML 1.1 and 1.2."""
    return bool(
        _UNQUOTED_AMOUNT.fullmatch(text) or (_UNQUOTED_WORD.fullmatch(text) and text.lower() not in _NO_TEXT)
    )


Plain: TypeAlias = str | int | bool | None
"""The value of a scalar; None is null."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", re.ASCII)
_WHOLE = re.compile(r"[-+]?[0-9]+", re.ASCII)
_AMOUNT = re.compile(r"[0-9]+(?:\.[0-9]+)?( ?[A-Za-z]+)", re.ASCII)


def render_inline(value: object, quote: str = "", *, flow: bool = False) -> str:
    """Render a value in one line: a scalar, or a mapping or list in brackets.

    Args:
        quote: The quote of texts; empty for none where they need none.
        flow: Whether it is inside brackets.
    """
    match value:
        case Mapping():
            items = [(render_inline(name, quote, flow=True), value[name]) for name in value]
            entries = [f"{name}: {render_inline(item, quote, flow=True)}" for name, item in items]
            return "{" + ", ".join(entries) + "}"
        case list():
            return "[" + ", ".join(render_inline(item, quote, flow=True) for item in value) + "]"
        case None:
            return "null"
        case str() if quote == "'" and value.isprintable() and find_template(value) is None:
            return "'" + value.replace("'", "''") + "'"
        case str():
            return value if not quote and _needs_no_quotes(value, flow=flow) else _double_quote(value)
        case _:
            return str(value).lower() if isinstance(value, bool) else str(value)


def _needs_no_quotes(text: str, *, flow: bool) -> bool:
    if _NUMBER.fullmatch(text) or _AMOUNT.fullmatch(text):
        return True
    return is_plainly_text(text) and not (flow and "," in text)


def _double_quote(text: str) -> str:
    quoted: str = yaml.dump(text, default_style='"', width=float("inf"), allow_unicode=text.isprintable())
    return escape_templates(quoted.removesuffix("\n"), r"\x")


def format_like(key: ConfigKey | None, value: str, old: str | None) -> Plain:
    """Format the value of a config in the unit of the old value, if that is natural.

    That is so if it is a whole number in this unit, and less than two of the next larger one: if the old
    value was 24h, one day is 24h, but a week is 7d.
    """
    natural = format_value(key, value)
    if key is None or key.unit is None or old is None:
        return natural
    if _WHOLE.fullmatch(old):
        return int(value) if _WHOLE.fullmatch(value) else natural
    unit = _AMOUNT.fullmatch(old)
    if unit is None or not value.isdecimal():
        return natural
    larger = _AMOUNT.fullmatch(str(natural))
    # Two of the next unit: 48h is 2d, 36h stays.
    if larger is not None and int(value) >= 2 * _convert_unit(key, larger[1]) > 2 * _convert_unit(
        key, unit[1]
    ):
        return natural
    number, remainder = divmod(int(value), _convert_unit(key, unit[1]))
    return natural if remainder or not number else f"{number}{unit[1]}"


def _convert_unit(key: ConfigKey, unit: str) -> int:
    return int(kafka_configs.canonical(key, f"1{unit}"))
