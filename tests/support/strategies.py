"""Hypothesis strategies for plans and their parts; every module's property tests draw from here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kafkaform.model import (
    CONFIG_PREFIX,
    SAFE,
    Change,
    Consent,
    Create,
    Delete,
    Diagnostic,
    FieldChange,
    FieldValue,
    Judgement,
    Location,
    Origin,
    Plan,
    PlannedChange,
    Reader,
    ResourceRef,
    Risk,
    Severity,
    Status,
    UndeclaredConfig,
    Update,
)
from kafkaform.plan_file import PlanHeader
from kafkaform.report.changes import fields_of

T = TypeVar("T")

# What breaks terminals, Markdown, HTML, JSON and shells, as single bites.
HOSTILE = (
    "\x1b[2J\x1b[31m",
    "\x9b31m",
    "\r\n",
    "\n\n# heading\n",
    "\u2028",
    "\u202e",
    "\u200b",
    "\x00",
    "\x7f",
    "|",
    "\\|",
    "`",
    "``` ",
    "\n```\n",
    "<img src=x onerror=alert(1)>",
    "</details>",
    "</code></summary>",
    "<!--",
    "-->",
    "&lt;",
    "&#64;",
    "@octocat",
    "#123",
    "octo/repo#1",
    "GH-12",
    "deadbeefcafe",
    "https://evil.example/x",
    "www.evil.example",
    "a@b.example",
    "[a](http://evil.example)",
    "![a](x)",
    "**b**",
    "__b__",
    "~~s~~",
    ":tada:",
    "$(rm -rf /)",
    "'",
    '"',
    "\\",
    "$x$",
    "---",
    "- ",
    "+ ",
    "1. ",
    "> ",
    "[bold red]",
    ":warning:",
    "null",
    "日本",
    "\U0001f600",
    "\ud800",
)

LEGAL_NAME = r"[a-zA-Z0-9._-]{1,40}"
CONFIG_KEYS = (
    "cleanup.policy",
    "max.message.bytes",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "vendor.key",
)
HAZARDS = ("retention-cut", "delete", "partition-increase", "policy-change")


def hostile_text(*, min_size: int = 0, max_size: int = 6) -> SearchStrategy[str]:
    """Text of harmless words and of everything known to break an output."""
    bites = st.sampled_from(HOSTILE) | st.text(max_size=8) | st.sampled_from(("orders", " ", "7d", "."))
    return (
        st.lists(bites, min_size=min_size, max_size=max_size)
        .map("".join)
        .filter(lambda text: len(text) >= min_size)
    )


def names(*, legal: bool = False) -> SearchStrategy[str]:
    """Resource names: those that Kafka allows, or also hostile ones."""
    allowed = st.from_regex(LEGAL_NAME, fullmatch=True)
    return allowed if legal else allowed | hostile_text(min_size=1)


def refs(*, legal: bool = False) -> SearchStrategy[ResourceRef]:
    """Topics and groups."""
    return st.builds(ResourceRef, st.sampled_from(("Topic", "ConsumerGroup")), names(legal=legal))


def locations(*, columns: bool = False) -> SearchStrategy[Location]:
    """Places in manifests; in column 1 unless `columns`."""
    return st.builds(
        Location,
        st.from_regex(r"topics/[a-z]{1,10}\.yaml", fullmatch=True) | hostile_text(min_size=1),
        st.integers(1, 10_000),
        st.integers(1, 200) if columns else st.just(1),
    )


def values() -> SearchStrategy[FieldValue]:
    """Counts, config strings (also "" and "null") and unset."""
    return st.none() | st.integers(-(2**63), 2**63) | st.integers().map(str) | hostile_text()


def paths() -> SearchStrategy[str]:
    """Paths of managed fields."""
    configs = (st.sampled_from(CONFIG_KEYS) | hostile_text(min_size=1)).map(lambda key: CONFIG_PREFIX + key)
    return st.sampled_from(("partitions", "replicationFactor")) | configs


def states() -> SearchStrategy[dict[str, FieldValue]]:
    """The managed fields of one resource."""
    return st.dictionaries(paths(), values(), max_size=6)


@st.composite
def judgements(draw: DrawFn) -> Judgement:
    """Safe, or of any risk with a hazard, a reason and perhaps a remedy."""
    risk = draw(st.sampled_from(Risk))
    if risk is Risk.SAFE and draw(st.booleans()):
        return SAFE
    return Judgement(
        risk,
        draw(st.sampled_from(HAZARDS) | hostile_text()),
        draw(hostile_text()),
        draw(st.none() | hostile_text()),
    )


def field_changes() -> SearchStrategy[FieldChange]:
    """One field of an update."""
    return st.builds(
        FieldChange,
        path=paths(),
        before=values(),
        after=values(),
        effective_before=values(),
        effective_after=values(),
        judgement=judgements(),
        deferred=st.none() | hostile_text(),
    )


def changes(*, legal: bool = False) -> SearchStrategy[Change]:
    """Creates, updates and deletes."""
    uids = st.none() | st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True)
    fields = st.lists(field_changes(), min_size=1, max_size=4, unique_by=lambda f: f.path).map(tuple)
    return st.one_of(
        st.builds(Create, refs(legal=legal), states(), judgements()),
        st.builds(Update, refs(legal=legal), uids, fields),
        st.builds(Delete, refs(legal=legal), uids, states(), judgements()),
    )


def planned_changes(*, legal: bool = False, columns: bool = False) -> SearchStrategy[PlannedChange]:
    """Changes of any status and origin."""
    planned = st.builds(
        PlannedChange,
        changes(legal=legal),
        st.sampled_from(Status),
        st.none() | locations(columns=columns),
        st.none() | hostile_text(),
        st.none() | hostile_text(),
        team=st.just("") | hostile_text(),
    )
    return planned.flatmap(_with_origin)


def _with_origin(planned: PlannedChange) -> SearchStrategy[PlannedChange]:
    found = [st.just(planned)]
    found += [st.just(replace(planned, origin=origin)) for origin in (Origin.BRANCH, Origin.DRIFT)]
    paths = [field.path for field in fields_of(planned.change)]
    if paths:
        some = st.lists(st.sampled_from(paths), min_size=1, unique=True).map(tuple)
        found.append(some.map(lambda earlier: replace(planned, origin=Origin.MIXED, earlier=earlier)))
    return st.one_of(found)


def diagnostics(*, columns: bool = False) -> SearchStrategy[Diagnostic]:
    """Findings of rules."""
    return st.builds(
        Diagnostic,
        st.from_regex(r"KF[0-9]{3}", fullmatch=True),
        st.sampled_from(Severity),
        hostile_text(),
        st.none() | locations(columns=columns),
        st.none() | hostile_text(),
        ref=st.none() | refs(),
    )


def _sorted_tuple(
    items: SearchStrategy[T], *, max_size: int, key: Callable[[T], object]
) -> SearchStrategy[tuple[T, ...]]:
    return st.lists(items, max_size=max_size, unique_by=key).map(lambda found: tuple(sorted(found, key=key)))  # type: ignore[arg-type]


def plans(*, legal: bool = False, columns: bool = False, max_changes: int = 6) -> SearchStrategy[Plan]:
    """Whole plans in the stable order of the planner.

    Args:
        legal: Only resource names that Kafka allows.
        columns: Locations have columns other than 1, which a saved plan does not keep.
        max_changes: The most changes in one plan.
    """
    return st.builds(
        Plan,
        cluster_id=st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True) | hostile_text(),
        changes=_sorted_tuple(
            planned_changes(legal=legal, columns=columns), max_size=max_changes, key=lambda c: c.ref
        ),
        unchanged=st.integers(0, 10_000),
        unmanaged=_sorted_tuple(refs(legal=legal), max_size=4, key=lambda r: r),
        undeclared=_sorted_tuple(
            st.builds(UndeclaredConfig, refs(legal=legal), paths(), hostile_text()),
            max_size=4,
            key=lambda u: u,
        ),
        consents=_sorted_tuple(
            st.builds(Consent, refs(legal=legal).map(str), st.sampled_from(HAZARDS), hostile_text()),
            max_size=3,
            key=lambda c: c,
        ),
        diagnostics=st.lists(diagnostics(columns=columns), max_size=3).map(tuple),
        broker_validated=st.booleans(),
        unknown=_sorted_tuple(refs(legal=legal), max_size=3, key=lambda r: r),
        readers=_sorted_tuple(
            st.builds(
                Reader,
                refs(legal=legal),
                st.lists(hostile_text(), max_size=2).map(tuple),
                st.just("") | hostile_text(),
            ),
            max_size=3,
            key=lambda r: r.ref,
        ),
    )


def headers() -> SearchStrategy[PlanHeader]:
    """What a saved plan says about its making."""
    return st.builds(
        PlanHeader,
        tool_version=st.just("0.1.0") | hostile_text(),
        commit=st.none() | st.from_regex(r"[0-9a-f]{40}", fullmatch=True) | hostile_text(),
        cluster_name=st.none() | st.just("prod") | hostile_text(),
        environment=st.none() | st.just("prod") | hostile_text(),
        created_at=st.datetimes().map(lambda d: d.strftime("%Y-%m-%dT%H:%M:%S").zfill(19) + "Z"),
    )
