"""Keeping the secrets of Kafka's client properties out of what others can read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SENSITIVE = r"(?i)secret|password|passwd|token|credential|access[.]?key|jaas|keystore|ssl[.]key|oauth|url"
"""Names of settings and options whose values Spark must hide; wider than its own default, which shows
`kafka.sasl.jaas.config`."""

HIDDEN = "[hidden]"

_SHORTEST = 4
_QUOTED = re.compile(r'=\s*"((?:[^"\\]|\\.)*)"')


def is_sensitive(name: str) -> bool:
    """Whether the value of a property or setting may be a secret, by its name."""
    return re.search(SENSITIVE, name) is not None


def secrets(properties: Mapping[str, str]) -> frozenset[str]:
    """The values that must not be shown: those of sensitive names, and the quoted parts of login modules."""
    found: set[str] = set()
    for name, value in properties.items():
        if not is_sensitive(name):
            continue
        found.add(value)
        found.update(re.sub(r"\\(.)", r"\1", part) for part in _QUOTED.findall(value))
        found.update(_QUOTED.findall(value))
    return frozenset(value for value in found if value)


def hidden(text: str, values: Iterable[str]) -> str:
    """The text with each of the values replaced; very short ones only where they stand alone."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
        else:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", HIDDEN, text)
    return text
