"""A tool that is missing is a skip that is seen, and a failure where it must be there."""

from typing import Any

import pytest

from tests.support.required import REQUIRE, program


@pytest.mark.parametrize(
    ("required", "outcome"), [("shellcheck", pytest.skip), ("browser,no-such-tool", pytest.fail)]
)
def test_missing_tool_skips_or_fails(monkeypatch: pytest.MonkeyPatch, required: str, outcome: Any) -> None:
    assert program("shell", "no-such-shell", "sh").endswith("/sh")
    monkeypatch.setenv(REQUIRE, required)
    with pytest.raises(outcome.Exception, match="no no-such-tool is installed"):
        program("no-such-tool")
