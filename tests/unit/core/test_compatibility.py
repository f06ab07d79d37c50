import pytest
from hypothesis import given

from kafkaform.plan.plan_header import is_compatible
from tests.support.plans import strategies


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        *(("0.1.0", version, True) for version in ("0.1.9", "0.1", "0.1.0rc1", "0.1.0-beta.2")),
        # The last one has a digit, but not one of a version.
        *(("0.1.0", version, False) for version in ("0.2.0", "", "0.1x", "0.\u0661.0")),
        *(("1.0.0", "1.9.3", True), ("1.9.9", "2.0.0", False), ("1.0.0", "10.0.0", False)),
        ("local", "local", True),
    ],
)
def test_compatible_versions_are_symmetric(one: str, other: str, *, alike: bool) -> None:
    assert is_compatible(one, other) is is_compatible(other, one) is alike


@given(strategies.hostile_text())
def test_version_is_compatible_with_itself(version: str) -> None:
    assert is_compatible(version, version)
