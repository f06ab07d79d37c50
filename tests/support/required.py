"""Programmes that some tests need, and that not every machine has."""

import os
import shutil

import pytest

REQUIRE = "KAFKAFORM_REQUIRE"
"""Names, separated by commas, what must be installed here, such as `browser,shellcheck`: CI sets it."""


def program(what: str, *names: str) -> str:
    """The path of the first of these programmes that is installed.

    Where there is none, the test is skipped, and says so; it fails where KAFKAFORM_REQUIRE names it.
    """
    for name in names or (what,):
        if found := shutil.which(name):
            return found
    missing = f"no {what} is installed: none of {', '.join(names)}" if names else f"no {what} is installed"
    if what in os.environ.get(REQUIRE, "").split(","):
        pytest.fail(f"{missing}, and {REQUIRE} names it", pytrace=False)
    pytest.skip(missing)
