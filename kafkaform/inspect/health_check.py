"""Health report of a live cluster: the findings of health rules, and the rules that could not be checked."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.config.settings import ClusterSettings, Settings
from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.health import Health, Part
from kafkaform.core.model import Desired, Diagnostic, Facts, Observation, ResourceRef, Severity
from kafkaform.core.progress import Clock
from kafkaform.core.values import Value, field, replace
from kafkaform.core.wording import counted
from kafkaform.inspect.arrivals import read_arrivals
from kafkaform.inspect.successions import judge_successions, read_groups
from kafkaform.plan.planning import check_identity
from kafkaform.plan.successions import list_predecessors, map_successions, read_predecessors
from kafkaform.resources import group_ref, is_group, is_topic, topic_ref
from kafkaform.resources.groups import Group, GroupReading
from kafkaform.rules import Rule, RuleContext, Stage
from kafkaform.rules.health import CRITICAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafkaform.cluster.protocol import (
        ClusterReader,
        GroupReader,
        HealthReader,
        PartitionReader,
        ReplicaReader,
        ResourceReader,
    )
    from kafkaform.resources.succession import Succession
    from spark_validation.arrivals import TopicArrivals

SEVERITY_ORDER = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}
"""The order of severities."""

_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 5.0

_TOPICS, _TRANSACTIONS, _ARRIVALS, _THROTTLES = "KF306", "KF311", "KF312", "KF313"
_SUCCESSIONS = "KF314"
_GROUP_RULES = ("KF307", "KF315")
_BROKER_RULES = frozenset(
    {"KF301", "KF302", "KF303", "KF304", "KF305", "KF308", "KF309", "KF310", _TRANSACTIONS, _THROTTLES}
)
"""The rules that need neither groups nor the details of topics."""
ON_REQUEST = frozenset({_ARRIVALS})
"""The rules that run only if they are named, or have a severity in kafkaform.yaml: reading the offsets of all
partitions at several times takes three times as long as all the other rules together."""
_NO_CONTROLLER = "not read while no active controller answers"
_RULES_BY_PART: dict[Part, tuple[str, ...]] = {
    Part.PARTITIONS: ("KF303", "KF304", "KF305", "KF308"),
    Part.MIN_ISR: ("KF305",),
    Part.QUORUM: ("KF301",),
    Part.REASSIGNMENTS: ("KF309", _THROTTLES),
    Part.LOG_DIRS: ("KF310",),
    Part.TRANSACTIONS: (_TRANSACTIONS,),
    Part.THROTTLES: (_THROTTLES,),
}


class HealthVerdict(StrEnum):
    """The verdict of a health report."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "health unknown"


class UncheckedRule(Value):
    """A rule that could not be checked, because its input could not be read.

    Attributes:
        what: The input that could not be read, and why.
        matters: Whether the health of the cluster is unknown without it.
    """

    code: str
    what: str
    matters: bool


class HealthReport(Value):
    """The findings and readings of one examination.

    Attributes:
        health: The reading of the brokers.
        findings: The findings of rules, the most severe first.
        unchecked: The rules that could not be checked.
        groups: The groups that were read, with their lag.
        arrivals: The spread of written records of topics, as far as it was read.
        fail_on: The lowest severity of a finding that makes the cluster unhealthy.
    """

    health: Health
    findings: tuple[Diagnostic, ...] = ()
    unchecked: tuple[UncheckedRule, ...] = ()
    groups: Mapping[str, Group] = field(default_factory=dict)
    arrivals: tuple[TopicArrivals, ...] = ()
    fail_on: Severity = Severity.WARNING

    @property
    def verdict(self) -> HealthVerdict:
        """The verdict: one finding is enough for UNHEALTHY; HEALTHY needs every rule that matters."""
        if any(
            f.waived is None and SEVERITY_ORDER[f.severity] >= SEVERITY_ORDER[self.fail_on]
            for f in self.findings
        ):
            return HealthVerdict.UNHEALTHY
        # Not HEALTHY: the rule might have found something. A finding of another rule decides before that.
        if any(rule.matters for rule in self.unchecked):
            return HealthVerdict.UNKNOWN
        return HealthVerdict.HEALTHY


class Examination(Value):
    """The parameters of a health check.

    Attributes:
        desired: The declared resources; empty where there are no manifests.
        settings: The configuration of the project.
        target: Its settings of this cluster.
        environment: The environment whose overrides apply; None if none was chosen.
        only: The codes of the rules to run, even if they are switched off; empty for all health rules.
        fail_on: The lowest severity of a finding that makes the cluster unhealthy.
        subset: Whether `desired` is only a part of what the repository declares.
    """

    desired: tuple[Desired, ...] = ()
    settings: Settings = field(default_factory=Settings)
    target: ClusterSettings | None = None
    environment: str | None = None
    only: frozenset[str] = frozenset()
    fail_on: Severity = Severity.WARNING
    subset: bool = False

    @property
    def severities(self) -> dict[str, str]:
        """The severities of health rules that the project or this examination changes."""
        # The settings of the project come last: a severity there is a request to run the rule.
        chosen = {**dict.fromkeys(ON_REQUEST - self.only, "off"), **self.settings.rules}
        for code in health_rules(self.settings):
            if self.only and code not in self.only:
                chosen[code] = "off"
            # Named on the command line, a rule runs with its own severity.
            elif code in self.only and chosen.get(code) == "off":
                del chosen[code]
        return chosen

    def examine(self, cluster: ClusterReader) -> HealthReport:
        """Read a cluster and run the rules.

        Raises:
            ClusterError: The cluster cannot be read at all; smaller gaps are in `HealthReport.unchecked`.
            KafkaformError: It is not the cluster that the configuration expects.
        """
        health = cluster.health()
        facts = Facts(health.cluster_id, health.brokers)
        # Health needs no id: a cluster without one is examined, although nothing identifies it.
        if health.cluster_id:
            check_identity(facts, self.target)
        severities = self.severities
        active = {code for code in health_rules(self.settings) if severities.get(code) != "off"}
        if _TRANSACTIONS in active:
            health = _add_transactions(cluster, health)
        if _THROTTLES in active:
            health = _add_throttles(cluster, health)
        unchecked: dict[str, list[str]] = defaultdict(list)
        not_offered: set[str] = set()  # not offered by the brokers, so no fault of the account or cluster
        for part, why in health.unread.items():
            # Without the request, no account could read it, and no cluster of this kind would ever be
            # healthy.
            if part in health.not_offered:
                not_offered.add(f"{part}: {why}")
            for code in _RULES_BY_PART[part]:
                unchecked[code].append(f"{part}: {why}")
        desired = self.desired
        observation = Observation({})
        successions: tuple[Succession, ...] = ()
        groups: Mapping[str, Group] = {}
        if health.quorum is not None and health.quorum.leader is None:
            # About half of the requests would then time out, after 30 s each.
            for code in sorted(active - _BROKER_RULES):
                unchecked[code].append(_NO_CONTROLLER)
            desired = ()
        elif active - _BROKER_RULES - {_ARRIVALS}:
            observation = _read_topics(cluster, desired, unchecked)
            reading, groups, denied = _read_groups(cluster, desired, self.settings, unchecked)
            if _SUCCESSIONS in active:
                predecessors = read_predecessors(desired, observation, cluster, time.time_ns() // 1_000_000)
                judged = judge_successions(predecessors, reading, desired, map_successions(desired))
                successions = tuple(judged)
            # A rule would report a resource that is only hidden from this account as missing.
            hidden = denied | observation.invisible.keys()
            desired = tuple(declared for declared in desired if declared.ref not in hidden)
        arrivals: tuple[TopicArrivals, ...] = ()
        if _ARRIVALS in active and _ARRIVALS not in unchecked:
            # Last, as it takes longest.
            arrivals = _read_arrivals(cluster, health, self.settings, unchecked)
        context = RuleContext(
            desired,
            facts,
            frozenset(observation.resources),
            self.settings.limits,
            self.environment,
            self.target.brokers if self.target is not None else None,
            observation.resources,
            groups,
            health=health,
            subset=self.subset,
            arrivals=arrivals,
            successions=successions,
        )
        diagnostics = rules.check(context, severities, (Stage.HEALTH,), more=self.settings.policies)
        findings = sorted(diagnostics, key=lambda finding: (-SEVERITY_ORDER[finding.severity], finding.code))
        return HealthReport(
            health,
            tuple(findings),
            tuple(
                UncheckedRule(code, gap, gap not in not_offered and self._matters(code, severities))
                for code in sorted(unchecked.keys() & active)
                for gap in unchecked[code]
            ),
            groups,
            arrivals,
            self.fail_on,
        )

    def _matters(self, code: str, severities: Mapping[str, str]) -> bool:
        severity = Severity(severities.get(code, health_rules(self.settings)[code].severity))
        return SEVERITY_ORDER[severity] >= SEVERITY_ORDER[self.fail_on]


def _read_arrivals(
    cluster: ClusterReader, health: Health, settings: Settings, unchecked: dict[str, list[str]]
) -> tuple[TopicArrivals, ...]:
    """Read how records arrive in the topics that `ignore` does not exclude."""
    counts = Counter(partition.topic for partition in health.partitions)
    partition_counts = {
        name: count for name, count in counts.items() if not settings.ignore.match(topic_ref(name))
    }
    try:
        return tuple(read_arrivals(cluster, partition_counts, time.time_ns() // 1_000_000))
    except ClusterError as error:
        unchecked[_ARRIVALS].append(f"offsets: {error.message}")
        return ()


def health_rules(settings: Settings) -> dict[str, Rule]:
    """Return the health rules by code, including the project's own."""
    known = {**rules.RULES, **{policy.code: policy for policy in settings.policies}}
    return {code: rule for code, rule in known.items() if rule.stage is Stage.HEALTH}


def critical_findings(
    cluster: HealthReader, settings: Settings, target: ClusterSettings | None
) -> list[Diagnostic]:
    """Return the reasons not to move data on a cluster: the errors of the rules in CRITICAL.

    Raises:
        ClusterError: The health of the cluster cannot be read.
    """
    # Only the project's configuration counts: neither an option of one command nor a waiver makes it safe to
    # move data.
    chosen = {code: severity for code, severity in settings.rules.items() if code in CRITICAL}
    context = RuleContext((), brokers=target.brokers if target is not None else None, health=cluster.health())
    disabled = dict.fromkeys(health_rules(settings).keys() - CRITICAL, "off")
    findings = rules.check(context, {**chosen, **disabled}, (Stage.HEALTH,))
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def await_health(
    examine: Callable[[], HealthReport],
    timeout_s: float,
    tell: Callable[[HealthReport | ClusterError], object],
    clock: Clock | None = None,
) -> HealthReport:
    """Repeat the examination until the cluster is healthy or the timeout is over.

    A cluster that cannot be read counts as not healthy yet: its brokers may be restarting.

    Args:
        examine: A function that makes one reading, with connections of its own.
        timeout_s: The timeout in seconds; no reading begins after it.
        tell: A callback for the result of every reading but the last.
        clock: The clock; None for the system's.

    Returns:
        The last reading.

    Raises:
        ClusterError: The last reading failed.
    """
    clock = clock or Clock()
    deadline = clock.now() + timeout_s
    pause = _FIRST_PAUSE_S
    while True:
        outcome: HealthReport | ClusterError
        try:
            report = examine()
        except ClusterError as error:
            # A cluster that restarts does not answer: only the last reading may fail the command.
            if clock.now() >= deadline:
                raise
            outcome = error
        else:
            if report.verdict is HealthVerdict.HEALTHY or clock.now() >= deadline:
                return report
            outcome = report
        tell(outcome)
        clock.sleep(max(0.0, min(pause, deadline - clock.now())))
        # Each reading is load for brokers that are recovering.
        pause = min(pause * 1.5, _MAX_PAUSE_S)


def _add_transactions(cluster: PartitionReader, health: Health) -> Health:
    """Add the open transactions of its partitions to the reading, or why they could not be read."""
    if health.quorum is not None and health.quorum.leader is None:
        return replace(health, unread={**health.unread, Part.TRANSACTIONS: _NO_CONTROLLER})
    # KF304 reports those without a leader, which is the one to ask.
    partitions = [(p.topic, p.partition) for p in health.partitions if p.leader is not None]
    try:
        reading = cluster.open_transactions(partitions)
    except KafkaformError as error:
        return replace(health, unread={**health.unread, Part.TRANSACTIONS: error.message})
    unread = {Part.TRANSACTIONS: reading.unread} if reading.unread else {}
    return replace(health, transactions=reading.transactions, unread={**health.unread, **unread})


def _add_throttles(cluster: ReplicaReader, health: Health) -> Health:
    """Add the configs of throttles to the reading, or why they could not be read."""
    # While replicas move, throttles belong there.
    if health.reassigning != {}:
        return health
    reason = _NO_CONTROLLER
    if health.quorum is None or health.quorum.leader is not None:
        try:
            return replace(health, throttles=cluster.throttle_configs(health.topics))
        except KafkaformError as error:
            reason = error.message
    return replace(health, unread={**health.unread, Part.THROTTLES: reason})


def _read_topics(
    cluster: ResourceReader, desired: Collection[Desired], unchecked: dict[str, list[str]]
) -> Observation:
    """Read the declared topics, and those that they succeed."""
    wanted = frozenset(d.ref for d in desired if is_topic(d.ref) and d.state is not None)
    wanted |= list_predecessors(desired)
    if not wanted:
        return Observation({})
    try:
        observation = cluster.observe(wanted)
    except ClusterError as error:
        unchecked[_TOPICS].append(f"topics: {error.message}")
        return Observation({}, invisible=dict.fromkeys(wanted, error.message))
    unseen = sorted(observation.invisible.items())
    if unseen:
        ref, why = unseen[0]
        unchecked[_TOPICS].append(f"{counted(len(unseen), 'topic')}, such as {ref.name}: {why}")
    return observation


def _read_groups(
    cluster: GroupReader, desired: Collection[Desired], settings: Settings, unchecked: dict[str, list[str]]
) -> tuple[GroupReading, Mapping[str, Group], frozenset[ResourceRef]]:
    """Read the groups; returns all, the ones that are not ignored, and the declared ones not visible."""
    declared = {resource.ref for resource in desired if is_group(resource.ref)}

    def note_gap(reason: str) -> None:
        for code in _GROUP_RULES:
            unchecked[code].append(reason)

    try:
        reading = read_groups(cluster, (ref.name for ref in declared))
    except ClusterError as error:
        note_gap(f"groups: {error.message}")
        return GroupReading({}, unread=error.message), {}, frozenset(declared)
    denied = {ref: reading.denied[ref.name] for ref in sorted(declared) if ref.name in reading.denied}
    for ref, why in [*denied.items()][:1]:
        note_gap(f"{counted(len(denied), 'declared group')}, such as {ref.name}: {why}")
    groups = {
        name: group
        for name, group in sorted(reading.groups.items())
        if group_ref(name) in declared or not settings.ignore.match(group_ref(name))
    }
    if reading.unread:
        note_gap(f"groups: {reading.unread}")
    # Their lag may be higher than what was read: the rules are only checked in part.
    incomplete = [group for group in groups.values() if group.unread]
    for group in incomplete[:1]:
        note_gap(f"a part of {counted(len(incomplete), 'group')}, such as {group.name}: {group.unread}")
    return reading, groups, frozenset(denied)
