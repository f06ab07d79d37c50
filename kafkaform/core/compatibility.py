"""Which versions of kafkaform understand the same files alike."""

from __future__ import annotations

import re

from kafkaform import __version__

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})(?:[.+-].*|(?:a|b|rc)\d+.*)?", re.ASCII)


def is_compatible(version: str, with_: str = __version__) -> bool:
    """Whether two versions understand plans alike: the same major one, and before 1.0 the same minor one."""
    one, other = _VERSION.fullmatch(version), _VERSION.fullmatch(with_)
    if one is None or other is None:
        return version == with_
    (major, minor), (major2, minor2) = one.groups(), other.groups()
    return int(major) == int(major2) and (int(major) > 0 or int(minor) == int(minor2))
