"""Names of files for resources: the resource's own name wherever every disk, and kafkaform, takes it."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

from kafkaform.config.manifests.files import CONFIG_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SUFFIX = ".yaml"

_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}", re.ASCII)  # with the suffix no more than 255 bytes
_STRANGE = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
)
"""What Windows takes for a device, whatever follows the first dot."""
_KEPT = 200
"""Characters that are kept of a name that cannot stay as it is."""


def prefix(name: str) -> str:
    """What comes before the first dot of a name, or, in one without a dot, before the first `-` or `_`."""
    head = name.partition(".")[0] if "." in name else re.split("[-_]", name, maxsplit=1)[0]
    return head or name


def file_names(names: Iterable[str]) -> Mapping[str, str]:
    """A name of a file for each name, no two the same where upper and lower case are.

    A hash of the name follows a `~` where the name alone will not do: it is hidden, reserved or too long,
    has other characters than names of topics, or differs from an earlier one by case only.
    """
    taken: set[str] = set()
    made: dict[str, str] = {}
    for name in sorted(names):
        stem = name if _is_safe(name) and name.casefold() not in taken else _marked(name)
        taken.add(stem.casefold())
        made[name] = stem + SUFFIX
    return made


def _is_safe(name: str) -> bool:
    if not _SAFE.fullmatch(name) or f"{name}{SUFFIX}".casefold() == CONFIG_FILE:
        return False
    return name.partition(".")[0].casefold() not in _DEVICES


def _marked(name: str) -> str:
    plain = _STRANGE.sub("_", name)[:_KEPT]
    lead = "" if _is_safe(plain) else "_"
    return f"{lead}{plain}~{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
