"""What is worked out once: a property of an object, whichever of its threads comes first, or by a thread."""

from __future__ import annotations

from threading import RLock
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Self,
    TypeVar,
    overload,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


T = TypeVar("T")

_LOCK = "_lock_of_once"


class once(Generic[T]):  # noqa: N801 - used as a decorator, like functools.cached_property
    """Like `functools.cached_property`, with a lock for each object.

    That of Python 3.11 has one for all objects of a class: a cluster that does not answer would keep the
    others waiting. From 3.12 on it has none: two threads would make two clients.
    """

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, one: None, owner: type) -> Self: ...
    @overload
    def __get__(self, one: object, owner: type) -> T: ...
    def __get__(self, one: object | None, owner: type) -> Self | T:
        if one is None:
            return self
        kept = one.__dict__
        with kept.setdefault(_LOCK, RLock()):
            if self._name not in kept:
                kept[self._name] = self._work(one)
        value: T = kept[self._name]
        return value


def settle(future: Future[T], work: Callable[[], T]) -> bool:
    """Keep what some work gives, or what it raises; returns whether it was done."""
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
        future.set_exception(error)
        return False
    return True
