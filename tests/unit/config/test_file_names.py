"""Names of files for resources, on any disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.config.manifest_text import choose_file_names, get_prefix
from tests.support.plans.strategies import names

RESERVED = ["con", "NUL", "com1.v2", "kafkaform", "Kafkaform", ".hidden", "..a", ".", "..", ""]


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("User:orders-svc", "orders-svc"),
        ("User:CN=orders svc, O=Acme", "CN=orders_svc,_O=Acme"),
        ("User:spiffe://prod/ns/orders", "spiffe_prod_ns_orders"),
        ("User:*", "everyone"),
        ("Group:ops", "Group_ops"),
        ("user=<default>,client-id=app", "user=_default_,client-id=app"),
        ("ip=2001:db8::1", "ip=2001_db8_1"),
        ("team/app:x", "team_app_x"),
    ],
)
def test_unportable_name_becomes_readable_file_name(name: str, stem: str) -> None:
    assert choose_file_names([name]) == {name: f"{stem}.yaml"}


def test_colliding_file_names_are_marked_except_exact() -> None:
    made = choose_file_names(["a/b", "a:b", "a_b", "User:a_b"])
    assert made["a_b"] == "a_b.yaml"
    assert len({*made.values()}) == 4
    assert sorted("~" in name for name in made.values()) == [False, True, True, True]


@pytest.mark.parametrize("name", [*RESERVED, "User:", "../../etc/passwd", "é", "x" * 250, "User:.hidden"])
def test_reserved_file_name_is_marked(name: str) -> None:
    made = choose_file_names([name])[name]
    assert made != f"{name}.yaml"
    assert "~" in made
    assert "/" not in made
    assert not made.startswith(".")


@given(st.lists(names() | st.sampled_from(RESERVED) | st.text(max_size=300), unique=True, max_size=20))
def test_file_names_are_unique_and_portable(given_names: list[str]) -> None:
    made = choose_file_names(given_names)
    assert {*made} == {*given_names}
    assert len({name.casefold() for name in made.values()}) == len(given_names)
    assert made == choose_file_names(reversed(given_names))
    for name in made.values():
        assert name.isascii()
        assert name.isprintable()
        assert len(name) <= 255
        assert not name.startswith(".")
        assert not {*name} & {*'/\\:*?"<>| '}
        assert name.casefold() != "kafkaform.yaml"
        assert name.partition(".")[0].casefold() not in {"con", "prn", "aux", "nul", "com1", "lpt1"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders.v1", "orders"),
        ("customer-care.tickets.v1", "customer-care"),
        ("orders", "orders"),
        (".odd", ".odd"),
    ],
)
def test_prefix_is_part_before_separator(name: str, expected: str) -> None:
    assert get_prefix(name) == expected
