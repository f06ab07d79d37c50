"""How a manifest writes the value of a config, for people and so that every reader of YAML takes it alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ConfigType

if TYPE_CHECKING:
    from kafkaform.core.config_values import ConfigKey

_WHOLE = frozenset({ConfigType.INT, ConfigType.LONG, ConfigType.SHORT})
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
    if key.type in _WHOLE and value.removeprefix("-").isdecimal():
        return int(value)
    if key.type is ConfigType.BOOLEAN and value in {"true", "false"}:
        return value == "true"
    return value


def is_plainly_text(text: str) -> bool:
    """Whether a text needs no quotes to be taken for text, by readers of YAML 1.1 and 1.2 alike."""
    return bool(
        _PLAIN_AMOUNT.fullmatch(text) or (_PLAIN_WORD.fullmatch(text) and text.lower() not in _NO_TEXT)
    )
