"""Consent covers the hazard and the resource that it names, and nothing else."""

from __future__ import annotations

import pytest

from kafkaform.core.errors import UsageError
from kafkaform.core.model import ResourceRef
from kafkaform.core.plans import Consent
from kafkaform.resources.consent import Consents, Grant, parse_annotation

ORDERS = ResourceRef("Topic", "orders.v1")


@pytest.mark.parametrize(
    ("text", "covers"),
    [
        ("Topic/orders.v1:retention-cut", True),
        ("Topic/orders.*:retention-cut", True),
        ("*/orders.v1:retention-*", True),
        ("destructive", True),
        ("Topic/orders.v1:destructive", True),
        ("ConsumerGroup/*:destructive", False),
        ("Topic/orders.v1:delete", False),
        ("Topic/orders:retention-cut", False),
        ("topic/orders.v1:retention-cut", False),
        ("ConsumerGroup/orders.v1:retention-cut", False),
    ],
)
def test_grant_covers_matching_hazards_and_resources(text: str, covers: bool) -> None:
    grant = Grant.parse(text)
    assert grant.covers(ORDERS, "retention-cut") is covers
    assert Grant.parse(grant.text) == grant


@pytest.mark.parametrize(
    "text", ["", "*", "retention-cut", "orders:retention-cut", "Topic/orders", "Topic/a:"]
)
def test_invalid_grants_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as error:
        Grant.parse(text)
    assert error.value.exit_code == 64
    assert "--allow KIND/NAME:HAZARD" in str(error.value.hint)


def test_reviewed_consent_is_preferred() -> None:
    both = Consents((Grant.parse("destructive"),), {"delete": "unused since May"})
    assert both.find(ORDERS, "delete") == Consent("Topic/orders.v1", "delete", "unused since May")
    assert both.find(ORDERS, "retention-cut") == Consent("Topic/orders.v1", "retention-cut", "--allow")
    assert Consents((), {"delete": "unused"}).find(ORDERS, "retention-cut") is None
    # A glob in a manifest would consent to what no reviewer has seen.
    assert Consents((), {"*": "everything"}).find(ORDERS, "delete") is None


@pytest.mark.parametrize(
    ("text", "reasons", "bad"),
    [
        ("", {}, []),
        ("retention-cut: hold ended: T-1", {"retention-cut": "hold ended: T-1"}, []),
        ("  a :  x \n\n b:y\r\n", {"a": "x", "b": "y"}, []),
        ("retention-cut", {}, ["retention-cut"]),
        ("retention-cut:", {}, ["retention-cut:"]),
        (": reason", {}, [": reason"]),
        ("two words: reason\nb: y", {"b": "y"}, ["two words: reason"]),
        ("retention-cut  from 50 GiB: why", {"retention-cut from 50 GiB": "why"}, []),
        ("delete of a-B_c: why\ndelete of d: so", {"delete of a-B_c": "why", "delete of d": "so"}, []),
        ("delete of: why", {}, ["delete of: why"]),
        ("retention-cut to 7d: why", {}, ["retention-cut to 7d: why"]),
    ],
)
def test_annotation_lists_consents_with_reasons(text: str, reasons: dict[str, str], bad: list[str]) -> None:
    assert parse_annotation(text) == (reasons, bad)


@pytest.mark.parametrize(
    ("glob", "hint"),
    [("retention-cutt", "did you mean 'retention-cut'?"), ("nonsense-*", "hazards: access-removal")],
)
def test_unknown_hazard_is_refused(glob: str, hint: str) -> None:
    with pytest.raises(UsageError, match="there is no hazard") as error:
        Grant.parse(f"Topic/x:{glob}")
    assert str(error.value.hint).startswith(hint)
