"""The catalogue of rules, and the limits of kafkaform.yaml that they use.

A rule is a pure function from a `RuleContext` to findings. Its docstring is its documentation, from which
docs/rules.md is generated: the first line names the problem, the others explain it and the remedy.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from kafkaform.core.model import Desired, Diagnostic, Facts, Location, Observed, ResourceRef, Severity
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import quoted
from kafkaform.resources.replicas.disk_space import DISK_RESERVE
from spark_validation.durations import parse_duration

if TYPE_CHECKING:
    from kafkaform.core.health import Health
    from kafkaform.core.plans import PlannedChange
    from kafkaform.resources.base import ReportProblem
    from kafkaform.resources.groups import Group
    from kafkaform.resources.succession import Succession
    from spark_validation.arrivals import TopicArrivals
    from spark_validation.results import TopicResult

_T = TypeVar("_T")

NAME_PATH = "metadata.name"
"""The path of a finding about the name of a resource."""
_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s?%", re.ASCII)


class ProjectLimits(Value):
    """The `limits:` of kafkaform.yaml.

    Attributes:
        topic_name: The pattern that topic names must match (KF103); None without one.
        topics: The most topics to declare (KF114).
        partitions: The most partitions of all declared topics together (KF106).
        recovery_window_ms: The milliseconds that a consumer must be able to go back (KF110); None without
            a limit.
        blast_radius: The largest share of the live topics that one plan may put at risk (KF404).
        leader_imbalance: The percentage by which a broker's leaders may exceed the mean (KF308).
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


def read_limits(data: Mapping[str, Any], report: ReportProblem) -> ProjectLimits:
    """Parse `limits:`; report invalid values, and use the defaults instead."""
    given: dict[str, Any] = {}
    for name, (attribute, read) in _READERS.items():
        if name in data:
            try:
                given[attribute] = read(data[name])
            except ValueError as error:
                # Reported and not raised, so that one run finds all problems of the file.
                report((name,), f"limits.{name}: {error}", None)
    return ProjectLimits(**given)


def _read_pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"{quoted(value)} is not a regular expression: {error}") from None
    return value


def _read_duration(value: float | str) -> int:
    return parse_duration(str(value))


def _read_share(value: float | str) -> float:
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    share = float(percent[1]) / 100 if percent else value
    if isinstance(share, str) or not 0 < share <= 1:
        raise ValueError(f"{_format(value)} is not a share above 0 and up to 1; write e.g. 0.3 or 30%")
    return share


def _read_reserve(value: float | str) -> float:
    # 0 is no valid share elsewhere; as a reserve, it lets moves fill a volume.
    return 0.0 if str(value).strip() in {"0", "0%", "0.0"} else _read_share(value)


def _read_percent(value: float | str) -> int:
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    number = float(percent[1]) if percent else value
    if isinstance(number, str) or number < 0 or number != int(number):
        raise ValueError(f"{_format(value)} is not a whole percentage; write e.g. 30 or 30%")
    return int(number)


def _format(value: float | str) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


_READERS: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "topicName": ("topic_name", _read_pattern),
    "topics": ("topics", int),
    "partitions": ("partitions", int),
    "recoveryWindow": ("recovery_window_ms", _read_duration),
    "blastRadius": ("blast_radius", _read_share),
    "leaderImbalance": ("leader_imbalance", _read_percent),
    "diskReserve": ("disk_reserve", _read_reserve),
}


class Stage(StrEnum):
    """The input that a rule needs."""

    MANIFESTS = "manifests"
    """The manifests alone; data about the cluster makes it more exact."""
    LIVE = "live"
    """The manifests, and the live resources."""
    CHANGES = "changes"
    """The changes of a plan."""
    HEALTH = "health"
    """The live cluster, and manifests if there are any."""
    SKEW = "skew"
    """A measurement of records, and manifests if there are any. A plan shows an error as a warning: existing
    skew must not prevent an unrelated change."""
    FORECAST = "forecast"
    """The changes of a plan, and a measurement of records."""


# Without slots: cached_property stores its values in the instance's dictionary.
@dataclass(frozen=True)
class RuleContext:
    """The input of rules.

    Attributes:
        desired: The declared resources.
        facts: The data about the cluster; None offline.
        inventory: Every resource that the account can see; empty offline.
        limits: The project's limits.
        environment: The environment whose overrides apply; None without one.
        brokers: The actual or declared number of brokers; None if unknown.
        live: The live resources that were read, in detail; empty offline.
        groups: The live groups that were read, with their lag, by name; empty offline.
        changes: The changes of a plan, before rules are applied.
        health: The cluster's health; None unless it was read.
        subset: Whether `desired` is only a part of the repository's resources.
        skew: Measurements of topics, by name; empty without a skew report.
        saved: Whether the changes are those of a saved plan: there are no manifests then.
        invisible: Resources that this account may not see, whether they exist or not.
        arrivals: The distribution of records written to topics; empty unless it was read.
        successions: The progress of successions; empty unless it was read.
        defaults: The location of each default of kafkaform.yaml, by kind and path; only for `validate`.
        unread: Whether manifests are missing from `desired` that could not be read.
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
    successions: tuple[Succession, ...] = ()
    defaults: Mapping[tuple[str, str], Location] = field(default_factory=dict)
    unread: bool = False

    @cached_property
    def declared(self) -> Mapping[ResourceRef, Desired]:
        """The declared resources by kind and name."""
        return {desired.ref: desired for desired in self.desired}

    @cached_property
    def computed(self) -> dict[object, object]:
        """The results of functions that `cache_result` decorates, for this context."""
        return {}

    def of_kind(self, kind: str) -> tuple[Desired, ...]:
        """Return the declared resources of one kind, including tombstones and invalid manifests."""
        return self._by_kind.get(kind, ())

    def is_complete(self, kind: str) -> bool:
        """Return whether every manifest of a kind that the repository has was read, and is valid."""
        return not self.subset and not self.unread and kind not in self._invalid_kinds

    @cached_property
    def _invalid_kinds(self) -> frozenset[str]:
        return frozenset(desired.ref.kind for desired in self.desired if desired.invalid)

    @cached_property
    def _by_kind(self) -> Mapping[str, tuple[Desired, ...]]:
        by_kind: dict[str, list[Desired]] = {}
        for desired in self.desired:
            by_kind.setdefault(desired.ref.kind, []).append(desired)
        return {kind: tuple(resources) for kind, resources in by_kind.items()}


def cache_result(compute: Callable[[RuleContext], _T]) -> Callable[[RuleContext], _T]:
    """Decorate a function that several rules use: it runs once for each context."""

    @wraps(compute)
    def get_result(context: RuleContext) -> _T:
        if compute not in context.computed:
            context.computed[compute] = compute(context)
        return cast("_T", context.computed[compute])

    return get_result


class Finding(Value):
    """A problem that a rule has found.

    Attributes:
        message: The problem, with figures.
        suggestion: What to do about it.
        severity: The severity if it is not the rule's.
        path: The field, as in `Desired.locate`; empty: the rule's, or the whole manifest.
        subject: The declared resource, or the undeclared live one; None: that of a `RuleOfEach`, or the whole
            cluster.
        waivable: Whether a manifest can waive it, if the rule can be waived.
        location: The location if it is not in the manifest of a resource.
    """

    message: str
    suggestion: str | None = None
    severity: Severity | None = None
    path: str = ""
    subject: Desired | ResourceRef | None = None
    waivable: bool = True
    location: Location | None = None

    @property
    def ref(self) -> ResourceRef | None:
        """The resource of the finding; None for the whole cluster."""
        return self.subject.ref if isinstance(self.subject, Desired) else self.subject

    @property
    def declared(self) -> Desired | None:
        """The declared resource of the finding, if it has one."""
        return self.subject if isinstance(self.subject, Desired) else None


Check: TypeAlias = Callable[[RuleContext], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the catalogue.

    Attributes:
        severity: Its severity unless a finding or the project sets another one.
        check: The function that finds problems.
        stage: The input that it needs.
        waivable: Whether a manifest can waive it: not if Kafka would refuse the resource
            anyway, nor if the owner of another resource decides.
    """

    code: str
    severity: Severity
    # A policy's check is a new function each time that kafkaform.yaml is read.
    check: Check = field(compare=False)
    stage: Stage = Stage.MANIFESTS
    waivable: bool = True

    @property
    def summary(self) -> str:
        """The problem in one line."""
        return self.explanation.splitlines()[0]

    @property
    def explanation(self) -> str:
        """The problem, why it matters, and what to do."""
        return inspect.getdoc(self.check) or ""


RULES: dict[str, Rule] = {}


def rule(
    code: str, severity: Severity, *, stage: Stage = Stage.MANIFESTS, waivable: bool = True
) -> Callable[[Check], Check]:
    """Add the decorated function to the catalogue; raises ValueError if the code is taken."""

    def register(check: Check) -> Check:
        # A waiver or a severity for one of two rules of the same code would apply to both.
        if code in RULES:
            raise ValueError(f"{code} is already used by {RULES[code].check}")
        RULES[code] = Rule(code, severity, check, stage, waivable)
        return check

    return register


class Subject:
    """A resource, or a part of it, that a rule checks by itself.

    Attributes:
        about: The resource of its findings.
    """

    def __init__(self, about: Desired | ResourceRef, context: RuleContext) -> None:
        self.about, self.context = about, context

    @property
    def name(self) -> str:
        """The name of the resource."""
        return self.about.ref.name if isinstance(self.about, Desired) else self.about.name


class DeclaredResource(Subject):
    """A declared resource, or a part of it."""

    def __init__(self, desired: Desired, context: RuleContext) -> None:
        super().__init__(desired, context)
        self.desired = desired


_S = TypeVar("_S", bound=Subject)


class RuleOfEach(Generic[_S]):
    """The decorator of rules that check one subject at a time, such as each declared topic.

    Args:
        list_subjects: Returns the subjects of a context.
    """

    def __init__(self, list_subjects: Callable[[RuleContext], Iterable[_S]]) -> None:
        self._list_subjects = list_subjects

    def __call__(
        self,
        code: str,
        severity: Severity,
        path: str = "",
        *,
        stage: Stage = Stage.MANIFESTS,
        waivable: bool = True,
    ) -> Callable[[Callable[[_S], Iterable[Finding]]], Check]:
        """Return the decorator that adds a function to the catalogue; `path` is that of most findings."""

        def register(check_subject: Callable[[_S], Iterable[Finding]]) -> Check:
            @wraps(check_subject)
            def check(context: RuleContext) -> Iterator[Finding]:
                for subject in self._list_subjects(context):
                    for finding in check_subject(subject):
                        yield replace(finding, subject=subject.about, path=finding.path or path)

            return rule(code, severity, stage=stage, waivable=waivable)(check)

        return register


def check(
    context: RuleContext,
    severities: Mapping[str, str],
    stages: Collection[Stage] = (Stage.MANIFESTS,),
    *,
    more: Iterable[Rule] = (),
) -> Iterator[Diagnostic]:
    """Run rules, and yield their findings.

    Args:
        severities: The project's own severities by code; `off` disables a rule.
        stages: The stages of the rules to run.
        more: Rules besides those of the catalogue, such as a project's own policies.
    """
    # By code, so that findings do not depend on the order of imports.
    for entry in sorted((*RULES.values(), *more), key=lambda entry: entry.code):
        chosen = severities.get(entry.code)
        if chosen == "off" or entry.stage not in stages:
            continue
        for finding in entry.check(context):
            # Of an invalid manifest, only the name is known.
            if finding.declared is not None and finding.declared.invalid and finding.path != NAME_PATH:
                continue
            # The project's severity wins, also over one that a rule gives to a single finding.
            severity = Severity(chosen) if chosen else finding.severity or entry.severity
            yield _build_diagnostic(entry, finding, severity)


def _build_diagnostic(entry: Rule, finding: Finding, severity: Severity) -> Diagnostic:
    declared = finding.declared
    location = declared.locate(finding.path) if declared is not None else finding.location
    waivable = entry.waivable and finding.waivable
    reason = declared.intent.waivers.get(entry.code) if declared is not None and waivable else None
    # A waived finding stays visible, so that a waiver is not forgotten.
    if reason:
        severity = Severity.INFO
    return Diagnostic(
        entry.code, severity, finding.message, location, finding.suggestion, reason or None, finding.ref
    )
