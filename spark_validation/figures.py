"""The formats of figures, the same in sentences, tables and messages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_validation.results import Estimate

NOTHING = "-"
"""The placeholder for an unknown figure."""
# Further ones would show the rounding of floating point.
_MAX_DECIMALS = 12


def percent(share: float, limit: float | None = None) -> str:
    """Format a share in percent with three digits, as `8.33 %` or `30 %`; 0 and 100 only if exact.

    Args:
        share: 0 to 1.
        limit: A limit that it must not read the same as, unless it is equal.
    """
    if not math.isfinite(share):
        return NOTHING
    value = 100 * share
    places = next((places for places, least in enumerate((100, 10, 1, 0.1)) if value >= least), 4)
    text = _format_number(value, places, None if limit is None else 100 * limit)
    if limit is None and 0 < value < 100 and text in {"0", "100"}:
        return "< 0.0001 %" if text == "0" else "> 99.9 %"
    return f"{text} %"


def ratio(number: float, limit: float | None = None) -> str:
    """Format a number without a unit with three digits, as `3.9`, `12.4` or `1,204`.

    Args:
        limit: A limit that it must not read the same as, unless it is equal.
    """
    if not math.isfinite(number):
        return NOTHING
    size = abs(number)
    if limit is None and 0 < size < 0.0005:
        return "< 0.001"
    return _format_number(number, 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3, limit)


def _format_number(number: float, places: int, limit: float | None) -> str:
    """Format a number without trailing zeros, with more places where it would read as the limit."""
    while limit is not None and _reads_as(number, limit, places):
        places += 1
    text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _reads_as(number: float, limit: float, places: int) -> bool:
    return places < _MAX_DECIMALS and number != limit and f"{number:.{places}f}" == f"{limit:.{places}f}"


def count(value: float | None) -> str:
    """Format a whole number: `1,234,567`."""
    return NOTHING if value is None or not math.isfinite(value) else f"{round(value):,}"


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun: `1 record`, `1,200 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def is_exact(estimate: Estimate) -> bool:
    """Return whether the value is a count, not an estimate."""
    return estimate.low == estimate.high == estimate.value


def interval(estimate: Estimate, form: Callable[[float], str]) -> str:
    """Format the two ends of an interval: `8.12 to 8.57 %`; empty for an exact value."""
    if is_exact(estimate):
        return ""
    low, high = form(estimate.low), form(estimate.high)
    if low == high:
        return low
    unit = " %"
    # The unit stands once, unless "<" or ">" precedes a number.
    if low.endswith(unit) and high.endswith(unit) and low[0].isdigit() and high[0].isdigit():
        low = low.removesuffix(unit)
    return f"{low} to {high}"


def format_estimate(estimate: Estimate, form: Callable[[float], str]) -> str:
    """Format a value and its interval: `8.33 % (8.12 to 8.57 %)`; only the value if both read the same."""
    value, bounds = form(estimate.value), interval(estimate, form)
    return f"{value} ({bounds})" if bounds not in ("", value) else value
