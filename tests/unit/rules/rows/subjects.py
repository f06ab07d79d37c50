"""KF701 and KF702: declared subjects."""

from kafkaform.core.model import Desired, Intent, ResourceRef
from kafkaform.resources import topic_ref
from tests.support.plans.rules import Row, is_quiet, scene, trips
from tests.support.plans.scenes import declare_topic

ORDERS = declare_topic("orders", 12)


def subject(name: str, *references: str, is_absent: bool = False) -> Desired:
    spec = {"references": [{"name": each, "subject": each} for each in references]}
    return Desired(ResourceRef("Subject", name), None if is_absent else {}, Intent(spec=spec))


def build_purged(name: str) -> Desired:
    return Desired(ResourceRef("Subject", name), {"state": "purged"})


ROWS: list[Row] = [
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
