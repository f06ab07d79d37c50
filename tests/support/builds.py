"""hypothesis' `builds` for values, whose signature cannot be read: it needs types that only checks import."""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

_T = TypeVar("_T")


def builds(
    target: Callable[..., _T], *args: st.SearchStrategy[Any], **kwargs: st.SearchStrategy[Any]
) -> st.SearchStrategy[_T]:
    """Return a strategy of the results of `target`; all of its arguments without a default must be given."""
    return st.builds(lambda *a, **k: target(*a, **k), *args, **kwargs)
