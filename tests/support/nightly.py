"""The rows of a table that run with every change; the others run at night."""

from collections.abc import Collection, Iterable

import pytest
from _pytest.mark import ParameterSet


def select_daily(rows: Iterable[str], daily: Collection[str], reason: str) -> list[ParameterSet]:
    """Return the parameters of all rows; those that are not daily are nightly for this reason.

    Raises:
        ValueError: A daily row is not in the table.
    """
    names = [*rows]
    if unknown := {*daily} - {*names}:
        raise ValueError(f"no such rows: {', '.join(sorted(unknown))}")
    night = pytest.mark.nightly(reason)
    return [pytest.param(name, marks=[] if name in daily else [night]) for name in names]
