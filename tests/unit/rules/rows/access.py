"""KF601 to KF613: declared access, in the ways that other tests do not have; KF701 and KF702: subjects."""

from kafkaform.core.model import Desired, Intent, ResourceRef
from kafkaform.core.values import replace
from kafkaform.resources import topic_ref
from tests.support.plans.rules import Row, group, is_quiet, scene, trips
from tests.support.plans.scenes import absent, declare_topic

ORDERS = declare_topic("orders", 12)
LIMITED = replace(ORDERS, intent=replace(ORDERS.intent, spec={"access": {"write": []}}))


def access(principal: str, *paths: str) -> Desired:
    return Desired(ResourceRef("Access", principal), dict.fromkeys(paths, "granted"))


WRITE = "allow Write on topic orders"
PREFIX, DOTTED = "allow Write on topic prefix order", "allow Write on topic prefix orders."
WRITE_ALL, READ_X = "allow Write on topic *", "allow Read on topic x"
MEMBER, ODD = "allow Read on group g", "allow Write on group g"
NETWORK, SHORT = (f"{MEMBER} from {host}" for host in ("10.0.0.0/8", "%3A%3A1"))
READS = access("User:a", MEMBER)
UNDERSCORED = declare_topic("orders_v1")
WRITER = access("User:a", WRITE)
OF_TEAM_A = replace(WRITER, intent=Intent(labels={"team": "a"}))
OF_TEAM_B = replace(ORDERS, intent=Intent(labels={"team": "b"}))


def trips_access(rule: str, severity: str, right: str, declared: Desired, *others: Desired) -> Row:
    return trips(rule, scene(declared, *others), f"{declared.ref.name} {severity} {right}")


ROWS: list[Row] = [
    trips_access("KF601 everyone", "warning", WRITE, access("User:*", WRITE)),
    trips_access("KF602 order", "warning", PREFIX, access("User:a", PREFIX), ORDERS),
    trips_access("KF603 no topic", "warning", MEMBER, READS, group(), ORDERS),
    trips_access("KF604 order", "warning", WRITE[:-1], access("User:a", WRITE[:-1]), ORDERS),
    trips_access("KF605 every topic", "info", WRITE, access("User:a", WRITE, WRITE_ALL), ORDERS),
    trips_access("KF606 another topic", "info", READ_X, access("User:a", MEMBER, READ_X), group()),
    trips_access("KF607 another team", "warning", WRITE, OF_TEAM_A, OF_TEAM_B),
    trips_access("KF608 a deleted topic", "warning", WRITE, WRITER, absent("orders")),
    trips_access("KF609 denied", "warning", WRITE, access("User:a", WRITE, "deny All on topic *"), ORDERS),
    trips_access("KF610 another delimiter", "warning", DOTTED, access("User:a", DOTTED), UNDERSCORED),
    trips_access("KF611 beyond the limit", "error", WRITE, WRITER, LIMITED),
    trips_access("KF612 no such operation", "warning", ODD, access("User:a", ODD)),
    trips("KF613 another case", scene(access("user:a", WRITE), ORDERS), "user:a warning"),
    trips_access("KF613 a network", "warning", NETWORK, access("User:a", NETWORK)),
    trips_access("KF613 a short address", "warning", SHORT, access("User:a", SHORT)),
]


def subject(name: str, *references: str, is_absent: bool = False) -> Desired:
    spec = {"references": [{"name": each, "subject": each} for each in references]}
    return Desired(ResourceRef("Subject", name), None if is_absent else {}, Intent(spec=spec))


def build_purged(name: str) -> Desired:
    return Desired(ResourceRef("Subject", name), {"state": "purged"})


SUBJECTS: list[Row] = [
    trips("KF701 misspelt", scene(subject("order-value"), ORDERS), "order-value warning metadata.name"),
    trips("KF701 no topic", scene(subject("payments-key"), ORDERS), "payments-key warning metadata.name"),
    trips("KF701 part", scene(subject("a-value"), subset=True), "a-value info metadata.name"),
    *is_quiet(
        "KF701",
        scene(subject("orders-value"), ORDERS),
        scene(subject("com.acme.Order")),
        scene(subject("gone-value", is_absent=True), build_purged("lost-value")),
        scene(subject("a-value"), unread=True),
        scene(subject("live-value"), subset=True, inventory=frozenset({topic_ref("live")})),
    ),
    trips("KF702 misspelt", scene(subject("a", "mony"), subject("money")), "a warning references"),
    trips("KF702 of others", scene(subject("a", "shared.address")), "a warning references"),
    trips("KF702 deleted", scene(subject("a", "b"), subject("b", is_absent=True)), "a warning references"),
    trips("KF702 purged", scene(subject("a", "b"), build_purged("b")), "a warning references"),
    *is_quiet(
        "KF702",
        scene(subject("a", "money"), subject("money")),
        scene(subject("a", "b", is_absent=True)),
        scene(subject("a", "b"), unread=True),
    ),
]
