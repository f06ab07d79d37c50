"""What a misspelt name was probably meant to be, and how strange text is shown in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIKENESS = 0.7
_SHOWN = 60


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` most probably stands for, or None if none is like it.

    Upper and lower case count as the same, and the order of the candidates does not matter.
    """
    from difflib import get_close_matches  # 6 ms to import, and only needed once something is wrong

    spellings = {candidate.casefold(): candidate for candidate in sorted(candidates, reverse=True)}
    matches = get_close_matches(name.casefold(), spellings, n=1, cutoff=_LIKENESS)
    return spellings[matches[0]] if matches else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A clause to end an error message with, such as `; did you mean 'delete'?`, or nothing."""
    match = nearest(name, candidates)
    return f"; did you mean {match!r}?" if match is not None else ""


def quoted(text: str) -> str:
    """A user's text as part of a one-line message: in quotes, escaped, and not longer than a line."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
