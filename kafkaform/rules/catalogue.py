"""The catalogue of rules: what the field has learnt the hard way, as checks.

The figures that they compare with.

A rule is a pure function from a `RuleContext` to findings; its docstring is its documentation: the first line
says what is wrong, the rest why it matters and what to do.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.core.disk_space import DISK_RESERVE
from kafkaform.core.model import (
    Desired,
    Diagnostic,
    Facts,
    Location,
    Observed,
    PlannedChange,
    ResourceRef,
    Severity,
)
from kafkaform.core.units import parse_duration
from kafkaform.core.wording import quoted

if TYPE_CHECKING:
    from kafkaform.core.groups import Group
    from kafkaform.core.health import Health
    from kafkaform.resources.base import ReportProblem
    from spark_validation.arrivals import TopicArrivals
    from spark_validation.results import TopicResult


@dataclass(frozen=True, slots=True)
class ProjectLimits:
    """The `limits:` of kafkaform.yaml.

    Attributes:
        topic_name: The pattern that topic names match (KF103); None where there is none.
        topics: The most topics that are declared (KF114).
        partitions: The most partitions that are declared, all topics together (KF106).
        recovery_window_ms: How far back a consumer must be able to recover, in milliseconds (KF110); None
            where nobody has said.
        blast_radius: The largest share of the live topics that one plan may put at risk (KF404).
        leader_imbalance: How many percent above the mean a broker's leaders may be (KF308).
        disk_reserve: The share of each log directory's volume that moves of replicas leave free.
    """

    topic_name: str | None = None
    topics: int = 3_000
    partitions: int = 100_000
    recovery_window_ms: int | None = None
    blast_radius: float = 0.3
    leader_imbalance: int = 30
    disk_reserve: float = DISK_RESERVE


DEFAULT_LIMITS = ProjectLimits()

_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s?%", re.ASCII)


def read_limits(data: Mapping[str, Any], report: ReportProblem) -> ProjectLimits:
    """Read `limits:`; what is wrong in it is reported, and the default stands in its place."""
    given: dict[str, Any] = {}
    for name, (attribute, read) in _READERS.items():
        if name in data:
            try:
                given[attribute] = read(data[name])
            except ValueError as error:
                report((name,), f"limits.{name}: {error}", None)
    return ProjectLimits(**given)


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"{quoted(value)} is not a regular expression: {error}") from None
    return value


def _duration(value: float | str) -> int:
    return parse_duration(str(value))


def _share(value: float | str) -> float:
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    share = float(percent[1]) / 100 if percent else value
    if isinstance(share, str) or not 0 < share <= 1:
        raise ValueError(f"{_shown(value)} is not a share above 0 and up to 1; write e.g. 0.3 or 30%")
    return share


def _reserve(value: float | str) -> float:
    return 0.0 if str(value).strip() in {"0", "0%", "0.0"} else _share(value)


def _percent(value: float | str) -> int:
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    number = float(percent[1]) if percent else value
    if isinstance(number, str) or number < 0 or number != int(number):
        raise ValueError(f"{_shown(value)} is not a whole percentage; write e.g. 30 or 30%")
    return int(number)


def _shown(value: float | str) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


_READERS: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "topicName": ("topic_name", _pattern),
    "topics": ("topics", int),
    "partitions": ("partitions", int),
    "recoveryWindow": ("recovery_window_ms", _duration),
    "blastRadius": ("blast_radius", _share),
    "leaderImbalance": ("leader_imbalance", _percent),
    "diskReserve": ("disk_reserve", _reserve),
}


class Stage(StrEnum):
    """What a rule needs to have before it."""

    MANIFESTS = "manifests"
    """The manifests alone; what is known of the cluster makes it more exact."""
    LIVE = "live"
    """The live resources beside the manifests."""
    CHANGES = "changes"
    """The changes of a plan."""
    HEALTH = "health"
    """The live cluster; manifests where there are any."""
    SKEW = "skew"
    """A measurement of records; manifests where there are any. A plan shows an error as a warning: what is
    so already must not hold back a change that has nothing to do with it."""
    FORECAST = "forecast"
    """The changes of a plan beside a measurement of records."""


@dataclass(frozen=True)
class RuleContext:
    """What rules look at.

    Attributes:
        desired: The declared resources.
        facts: What is known of the cluster; None offline.
        inventory: Every resource that the account can see; empty offline.
        limits: What the project takes for normal.
        environment: Whose overrides hold; None if none was chosen.
        brokers: How many brokers the cluster has, or is declared to have; None if nobody says.
        live: Live resources in detail, as far as they were read; empty offline.
        groups: Live groups with their lag, by name, as far as they were read; empty offline.
        changes: The changes of a plan, before it is known what rules make of them.
        health: The cluster's health; None unless it was read.
        subset: Whether `desired` is only a part of what the repository declares.
        skew: Measurements of topics, by name; empty without a skew report.
        saved: Whether the changes are those of a saved plan: then no manifest is there to look at.
        invisible: Resources that this account may not see, whether they exist or not.
        arrivals: How the records written to topics spread over their partitions; empty unless it was read.
        defaults: The place of each default of kafkaform.yaml, by kind and path; empty but for `validate`.
    """

    desired: tuple[Desired, ...]
    facts: Facts | None = None
    inventory: frozenset[ResourceRef] = frozenset()
    limits: ProjectLimits = DEFAULT_LIMITS
    environment: str | None = None
    brokers: int | None = None
    live: Mapping[ResourceRef, Observed] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    changes: tuple[PlannedChange, ...] = ()
    health: Health | None = None
    subset: bool = False
    skew: Mapping[str, TopicResult] = field(default_factory=dict)
    saved: bool = False
    invisible: frozenset[ResourceRef] = frozenset()
    arrivals: tuple[TopicArrivals, ...] = ()
    defaults: Mapping[tuple[str, str], Location] = field(default_factory=dict)

    @cached_property
    def declared(self) -> Mapping[ResourceRef, Desired]:
        """The declared resources by kind and name."""
        return {desired.ref: desired for desired in self.desired}

    def of_kind(self, kind: str) -> tuple[Desired, ...]:
        """The declared resources of one kind, tombstones too."""
        return self._by_kind.get(kind, ())

    @cached_property
    def _by_kind(self) -> Mapping[str, tuple[Desired, ...]]:
        by_kind: dict[str, list[Desired]] = {}
        for desired in self.desired:
            by_kind.setdefault(desired.ref.kind, []).append(desired)
        return {kind: tuple(found) for kind, found in by_kind.items()}


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a rule tripped.

    Attributes:
        subject: The declared resource, or the live one that no manifest declares; None: the whole cluster.
        message: What is wrong, with the figures.
        suggestion: What to do.
        severity: Where it is not the rule's own.
        path: The field that it is about, as in `Desired.place`; empty: the whole manifest.
        waivable: Whether a manifest can waive it, where the rule can be waived.
        location: Where it is, if not in the manifest of a resource.
    """

    subject: Desired | ResourceRef | None
    message: str
    suggestion: str | None = None
    severity: Severity | None = None
    path: str = ""
    waivable: bool = True
    location: Location | None = None

    @property
    def ref(self) -> ResourceRef | None:
        """The resource."""
        return self.subject.ref if isinstance(self.subject, Desired) else self.subject

    @property
    def declared(self) -> Desired | None:
        """The declared resource."""
        return self.subject if isinstance(self.subject, Desired) else None


Check: TypeAlias = Callable[[RuleContext], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the catalogue.

    Attributes:
        code: Its code.
        severity: How loud it is unless a finding or the project says otherwise.
        check: The rule itself.
        stage: What it needs.
        waivable: Whether a manifest can have it overlook itself: not where Kafka would refuse all the same.
    """

    code: str
    severity: Severity
    check: Check = field(compare=False)
    stage: Stage = Stage.MANIFESTS
    waivable: bool = True

    @property
    def summary(self) -> str:
        """One line: what is wrong."""
        return self.explanation.splitlines()[0]

    @property
    def explanation(self) -> str:
        """What is wrong, why it matters, and what to do."""
        return inspect.getdoc(self.check) or ""


RULES: dict[str, Rule] = {}


def rule(
    code: str, severity: Severity, *, stage: Stage = Stage.MANIFESTS, waivable: bool = True
) -> Callable[[Check], Check]:
    """Add the decorated function to the catalogue; raises ValueError where the code is taken."""

    def register(check: Check) -> Check:
        if code in RULES:
            raise ValueError(f"{code} is already used by {RULES[code].check}")
        RULES[code] = Rule(code, severity, check, stage, waivable)
        return check

    return register


def check(
    context: RuleContext,
    severities: Mapping[str, str],
    stages: Collection[Stage] = (Stage.MANIFESTS,),
    *,
    more: Iterable[Rule] = (),
) -> Iterator[Diagnostic]:
    """Run rules over a context.

    A finding has its resource; one about the whole cluster has none.

    Args:
        context: What to look at.
        severities: The project's own severities by code; `off` switches a rule off.
        stages: Which rules to run.
        more: Rules besides those of the catalogue, such as a project's own policies.
    """
    for entry in sorted((*RULES.values(), *more), key=lambda entry: entry.code):
        chosen = severities.get(entry.code)
        if chosen == "off" or entry.stage not in stages:
            continue
        for finding in entry.check(context):
            severity = Severity(chosen) if chosen else finding.severity or entry.severity
            yield _diagnostic(entry, finding, severity)


def _diagnostic(entry: Rule, finding: Finding, severity: Severity) -> Diagnostic:
    declared = finding.declared
    place = declared.place(finding.path) if declared is not None else finding.location
    waivable = entry.waivable and finding.waivable
    reason = declared.intent.waivers.get(entry.code) if declared is not None and waivable else None
    if reason:
        severity = Severity.INFO
    return Diagnostic(
        entry.code, severity, finding.message, place, finding.suggestion, reason or None, finding.ref
    )
