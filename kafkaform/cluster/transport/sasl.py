"""Placeholder until the mechanisms land."""

from typing import Any

Exchange = Any


def logins(settings: Any) -> Any:
    raise NotImplementedError
