"""How messages write estimates: never so rounded that a limit seems kept that is not, or the other way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_validation.results import Estimate

_MOST_PLACES = 12


def ratio(estimate: Estimate, limit: float | None = None) -> str:
    """`2.41 (2.3 to 2.53)`; without an interval where it is exact."""
    return _worded(estimate, lambda number: plain(number, limit))


def share(estimate: Estimate, limit: float | None = None) -> str:
    """`31.4 % (29 to 33.8 %)` of a share of 0 to 1."""
    text = _worded(estimate, lambda number: percent(number, limit).removesuffix(" %"))
    value, opening, interval = text.partition(" (")
    return f"{value} %{opening}{interval[:-1]} %)" if opening else f"{value} %"


def count(estimate: Estimate) -> str:
    """`1,200 (1,100 to 1,310)`."""
    return _worded(estimate, lambda number: f"{number:,.0f}")


def plain(number: float, limit: float | None = None) -> str:
    """A number to two places, and to more where it would else look like the limit that it is not."""
    return _fixed(number, limit, 2)


def percent(number: float, limit: float | None = None) -> str:
    """A share of 0 to 1 in percent, to one place or more."""
    return f"{_fixed(number * 100, None if limit is None else limit * 100, 1)} %"


def _worded(estimate: Estimate, written: Callable[[float], str]) -> str:
    value, low, high = written(estimate.value), written(estimate.low), written(estimate.high)
    return value if low == high == value else f"{value} ({low} to {high})"


def _fixed(number: float, limit: float | None, places: int) -> str:
    text = f"{number:,.{places}f}"
    while places < _MOST_PLACES and (
        (number != 0 and float(text.replace(",", "")) == 0)
        or (limit is not None and number != limit and text == f"{limit:,.{places}f}")
    ):
        places += 1
        text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
