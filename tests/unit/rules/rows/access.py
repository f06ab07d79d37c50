"""KF601 to KF612: declared access, in the ways that other tests do not have."""

from __future__ import annotations

from kafkaform.core.model import Desired, Intent, ResourceRef
from kafkaform.core.values import replace
from tests.support.plans.rules import Row, group, scene, trips
from tests.support.plans.scenes import absent, declare_topic

ORDERS = declare_topic("orders", 12)
LIMITED = replace(ORDERS, intent=replace(ORDERS.intent, spec={"access": {"write": []}}))


def access(principal: str, *paths: str, team: str | None = None) -> Desired:
    labels = {} if team is None else {"team": team}
    return Desired(ResourceRef("Access", principal), dict.fromkeys(paths, "granted"), Intent(labels=labels))


WRITER = access("User:a", "allow Write on topic orders")
OWNED = (
    replace(WRITER, intent=Intent(labels={"team": "a"})),
    replace(ORDERS, intent=Intent(labels={"team": "b"})),
)

ROWS: list[Row] = [
    trips(
        "KF601 everyone",
        scene(access("User:*", "allow Write on topic orders")),
        "User:* warning allow Write on topic orders",
    ),
    trips(
        "KF602 order",
        scene(access("User:a", "allow Write on topic prefix order"), ORDERS),
        "User:a warning allow Write on topic prefix order",
    ),
    trips(
        "KF603 no topic",
        scene(access("User:a", "allow Read on group g"), group(), ORDERS),
        "User:a warning allow Read on group g",
    ),
    trips(
        "KF604 order",
        scene(access("User:a", "allow Write on topic order"), ORDERS),
        "User:a warning allow Write on topic order",
    ),
    trips(
        "KF605 every topic",
        scene(access("User:a", "allow Write on topic orders", "allow Write on topic *"), ORDERS),
        "User:a info allow Write on topic orders",
    ),
    trips(
        "KF606 another topic",
        scene(access("User:a", "allow Read on group g", "allow Read on topic x"), group()),
        "User:a info allow Read on topic x",
    ),
    trips("KF607 another team", scene(*OWNED), "User:a warning allow Write on topic orders"),
    trips(
        "KF608 a deleted topic", scene(WRITER, absent("orders")), "User:a warning allow Write on topic orders"
    ),
    trips(
        "KF609 denied",
        scene(access("User:a", "allow Write on topic orders", "deny All on topic *"), ORDERS),
        "User:a warning allow Write on topic orders",
    ),
    trips(
        "KF610 another delimiter",
        scene(access("User:a", "allow Write on topic prefix orders."), declare_topic("orders_v1")),
        "User:a warning allow Write on topic prefix orders.",
    ),
    trips("KF611 beyond the limit", scene(WRITER, LIMITED), "User:a error allow Write on topic orders"),
    trips(
        "KF612 no such operation",
        scene(access("User:a", "allow Write on group g")),
        "User:a warning allow Write on group g",
    ),
]
