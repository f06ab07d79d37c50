"""A tool that is missing is a skip that is seen, and a failure where it must be there."""

from __future__ import annotations

import pytest

from tests.support.required import REQUIRE, program


def test_first_installed_program_is_used() -> None:
    assert program("shell", "no-such-shell", "sh").endswith("/sh")
    assert program("sh") == program("shell", "sh")


@pytest.mark.parametrize("required", ["", "shellcheck", "no-such"])
def test_missing_tool_skips_with_reason(monkeypatch: pytest.MonkeyPatch, required: str) -> None:
    monkeypatch.setenv(REQUIRE, required)
    with pytest.raises(pytest.skip.Exception, match="no no-such-tool is installed"):
        program("no-such-tool", "no-such-name")


@pytest.mark.parametrize("required", ["no-such-tool", "browser,no-such-tool"])
def test_missing_required_tool_fails(monkeypatch: pytest.MonkeyPatch, required: str) -> None:
    monkeypatch.setenv(REQUIRE, required)
    with pytest.raises(pytest.fail.Exception, match="no no-such-tool is installed"):
        program("no-such-tool")
