"""The names of quotas: one for each entity, and an entity for each name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.core.printable import is_plain, printable
from kafkaform.resources.client_quota.entity import (
    CLIENT_ID,
    IP,
    USER,
    QuotaEntity,
    parse_entity,
    read_entity,
    write_entity,
)
from tests.support.builds import builds

NAMES = st.one_of(
    st.sampled_from(["alice", "default", "<default>", "%3Cdefault%3E", "a,b", "CN=a, OU=b", "ünï", " ", "%"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
)
PARTS = st.none() | NAMES
ENTITIES = st.one_of(
    builds(lambda user: ((USER, user),), PARTS),
    builds(lambda client: ((CLIENT_ID, client),), PARTS),
    builds(lambda user, client: ((USER, user), (CLIENT_ID, client)), PARTS, PARTS),
    builds(lambda ip: ((IP, ip),), PARTS),
).map(QuotaEntity)


@given(ENTITIES)
def test_entity_name_is_parsed_back(entity: QuotaEntity) -> None:
    assert parse_entity(entity.name) == entity
    assert read_entity(write_entity(entity)) == entity


@given(ENTITIES)
def test_entity_name_is_printable_and_valid_yaml(entity: QuotaEntity) -> None:
    assert printable(entity.name) == entity.name
    assert all(is_plain(char) and not char.isspace() for char in entity.name)
    problems: list[object] = []
    (document,) = read_documents(
        f"name: '{entity.name.replace(chr(39), chr(39) * 2)}'".encode(),
        "f",
        problems.append,
        verbatim=frozenset(),
    )
    assert problems == []
    assert document.data == {"name": entity.name}


@given(st.text() | builds(lambda entity, junk: entity.name + junk, ENTITIES, st.text(max_size=3)))
def test_text_is_canonical_entity_name_or_refused(text: str) -> None:
    try:
        entity = parse_entity(text)
    except ValueError:
        return
    assert entity.name == text


@pytest.mark.parametrize(
    "name",
    [
        "alice",
        "usr=alice",
        "",
        "user=",
        "user=a,user=b",
        "client-id=app,user=alice",
        "user=%61lice",
        "user=a%2cb",
        "user=<Default>",
        "user=50%",
        "user=%FF",
        "user=alice,ip=10.0.0.1",
    ],
)
def test_invalid_entity_names_suggest_valid_ones(name: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_entity(name)
    assert str(refused.value) == snapshot


BOTH, CLIENTS = "user=<default>,client-id=<default>", "client-id=<default>"


@pytest.mark.parametrize(
    ("name", "fallbacks"),
    [
        (
            "user=a,client-id=b",
            f"user=a,{CLIENTS} user=a user=<default>,client-id=b {BOTH} user=<default> client-id=b {CLIENTS}",
        ),
        ("user=a,client-id=<default>", f"user=a {BOTH} user=<default> client-id=<default>"),
        ("user=a", f"{BOTH} user=<default> client-id=<default>"),
        ("user=<default>,client-id=b", f"{BOTH} user=<default> client-id=b client-id=<default>"),
        (BOTH, "user=<default> client-id=<default>"),
        ("user=<default>", "client-id=<default>"),
        ("client-id=<default>", ""),
        ("ip=::1", "ip=<default>"),
    ],
)
def test_fallbacks_of_entity_follow_kafka_order(name: str, fallbacks: str) -> None:
    """The order of Kafka's documentation, of those that hold for all clients of an entity."""
    assert [entity.name for entity in parse_entity(name).fallbacks()] == fallbacks.split()
