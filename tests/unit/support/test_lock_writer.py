"""Tests of the counts in the tests of the lock under faults."""

from tests.support.lock.writer import find_late_writes


def test_second_late_write_is_found() -> None:
    first, second, third = "a 1.0", "b 2.0", "c 3.0"
    assert find_late_writes([second, first, second, second, third]) == {first: [1]}
    assert find_late_writes([first, second, first, first, third]) == {first: [2, 3]}
