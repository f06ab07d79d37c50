"""A health report of a live cluster: what rules say of its health, and what could not be told."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.config.settings import ClusterSettings, Settings
from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.groups import Group, GroupReading
from kafkaform.core.health import Health, Part
from kafkaform.core.model import Diagnostic, Facts, ResourceRef, Severity
from kafkaform.core.progress import Clock
from kafkaform.core.wording import counted
from kafkaform.inspect.arrivals import read_arrivals
from kafkaform.plan.planning import check_identity
from kafkaform.plan.policy import matches
from kafkaform.resources.consumer_group import group_ref, is_group
from kafkaform.resources.topic import is_topic
from kafkaform.rules import RuleContext, Stage
from kafkaform.rules.health import CRITICAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafkaform.cluster.protocol import (
        ClusterReader,
        GroupReader,
        HealthReader,
        PartitionReader,
        ResourceReader,
    )
    from kafkaform.core.model import Desired, Observed
    from kafkaform.rules import Rule
    from spark_validation.arrivals import TopicArrivals

LOUDNESS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}
"""Severities in order."""

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 5.0

_TOPICS, _GROUPS, _TRANSACTIONS, _ARRIVALS = "KF306", "KF307", "KF311", "KF312"
_OF_BROKERS = frozenset(
    {"KF301", "KF302", "KF303", "KF304", "KF305", "KF308", "KF309", "KF310", _TRANSACTIONS}
)
"""The rules that need neither groups nor topics in detail."""
ON_REQUEST = frozenset({_ARRIVALS})
"""The rules that run only if they are named, or have a severity in kafkaform.yaml: the offsets of all
partitions at several times take three times as long as all the others together."""
_ABOUT: dict[Part, tuple[str, ...]] = {
    Part.PARTITIONS: ("KF303", "KF304", "KF305", "KF308"),
    Part.MIN_ISR: ("KF305",),
    Part.QUORUM: ("KF301",),
    Part.REASSIGNMENTS: ("KF309",),
    Part.LOG_DIRS: ("KF310",),
    Part.TRANSACTIONS: (_TRANSACTIONS,),
}


class HealthVerdict(StrEnum):
    """What a health report comes to."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "health unknown"


@dataclass(frozen=True, slots=True)
class UncheckedRule:
    """What a rule would have to know and could not be read.

    Attributes:
        code: The rule.
        what: What could not be read, and why.
        matters: Whether the cluster cannot be called healthy without it.
    """

    code: str
    what: str
    matters: bool


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What was found.

    Attributes:
        health: The reading of the brokers.
        findings: What rules say of it, the loudest first.
        unchecked: What they could not look at.
        groups: The groups that were read, with their lag.
        arrivals: How the records written to topics spread, as far as it was read.
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
        """Unhealthy is known as soon as one finding says so, healthy only once everything was told."""
        if any(f.waived is None and LOUDNESS[f.severity] >= LOUDNESS[self.fail_on] for f in self.findings):
            return HealthVerdict.UNHEALTHY
        if any(rule.matters for rule in self.unchecked):
            return HealthVerdict.UNKNOWN
        return HealthVerdict.HEALTHY


@dataclass(frozen=True, slots=True)
class Examination:
    """What is examined, and by which standards.

    Attributes:
        desired: What manifests declare; empty where there are none.
        settings: What the project says.
        target: What it says of this cluster.
        environment: Whose overrides the desired resources have; None if none was chosen.
        only: The codes of the rules to run, also those that are switched off; empty: all about health.
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
        """The severity of each rule about health that a project or this examination changes."""
        chosen = {**dict.fromkeys(ON_REQUEST - self.only, "off"), **self.settings.rules}
        for code in health_rules(self.settings):
            if self.only and code not in self.only:
                chosen[code] = "off"
            elif code in self.only and chosen.get(code) == "off":
                del chosen[code]
        return chosen

    def examine(self, cluster: ClusterReader) -> HealthReport:
        """Read a cluster and run the rules.

        Raises:
            ClusterError: It cannot be read at all. What is missing besides is in `HealthReport.unchecked`.
            KafkaformError: It is not the cluster that the configuration expects.
        """
        health = cluster.health()
        facts = Facts(health.cluster_id, health.brokers)
        if health.cluster_id:
            check_identity(facts, self.target)
        severities = self.severities
        active = {code for code in health_rules(self.settings) if severities.get(code) != "off"}
        if _TRANSACTIONS in active:
            health = _add_transactions(cluster, health)
        unchecked: dict[str, list[str]] = defaultdict(list)
        lacking: set[str] = set()  # nobody can be told, so that nothing is wrong with who asks
        for part, why in health.unread.items():
            if part in health.not_offered:
                lacking.add(f"{part}: {why}")
            for code in _ABOUT[part]:
                unchecked[code].append(f"{part}: {why}")
        desired = self.desired
        live: Mapping[ResourceRef, Observed] = {}
        groups: Mapping[str, Group] = {}
        if health.quorum is not None and health.quorum.leader is None:
            # Half of what is asked then would be answered by nobody, after half a minute each.
            for code in sorted(active - _OF_BROKERS):
                unchecked[code].append("not read while no active controller answers")
            desired = ()
        elif active - _OF_BROKERS - {_ARRIVALS}:
            live, unseen = _live_topics(cluster, desired, unchecked)
            groups, denied = _live_groups(cluster, desired, self.settings, unchecked)
            desired = tuple(one for one in desired if one.ref not in unseen | denied)
        arrivals: tuple[TopicArrivals, ...] = ()
        if _ARRIVALS in active and _ARRIVALS not in unchecked:
            arrivals = _read_arrivals(cluster, health, self.settings, unchecked)
        context = RuleContext(
            desired,
            facts,
            frozenset(live),
            self.settings.limits,
            self.environment,
            self.target.brokers if self.target is not None else None,
            live,
            groups,
            health=health,
            subset=self.subset,
            arrivals=arrivals,
        )
        found = rules.check(context, severities, (Stage.HEALTH,), more=self.settings.policies)
        findings = sorted(found, key=lambda one: (-LOUDNESS[one.severity], one.code))
        return HealthReport(
            health,
            tuple(findings),
            tuple(
                UncheckedRule(code, what, what not in lacking and self._matters(code, severities))
                for code in sorted(unchecked.keys() & active)
                for what in unchecked[code]
            ),
            groups,
            arrivals,
            self.fail_on,
        )

    def _matters(self, code: str, severities: Mapping[str, str]) -> bool:
        severity = Severity(severities.get(code, health_rules(self.settings)[code].severity))
        return LOUDNESS[severity] >= LOUDNESS[self.fail_on]


def _read_arrivals(
    cluster: ClusterReader, health: Health, settings: Settings, unchecked: dict[str, list[str]]
) -> tuple[TopicArrivals, ...]:
    """Read how records arrive in the topics that are not left out by `ignore`."""
    counts = Counter(partition.topic for partition in health.partitions)
    taken = {
        name: count
        for name, count in counts.items()
        if not any(fnmatchcase(name, glob) for glob in settings.ignore)
    }
    try:
        return tuple(read_arrivals(cluster, taken, time.time_ns() // 1_000_000))
    except ClusterError as error:
        unchecked[_ARRIVALS].append(f"offsets: {error.message}")
        return ()


def health_rules(settings: Settings) -> dict[str, Rule]:
    """The rules about health by code, a project's own among them."""
    known = {**rules.RULES, **{policy.code: policy for policy in settings.policies}}
    return {code: rule for code, rule in known.items() if rule.stage is Stage.HEALTH}


def critical_findings(
    cluster: HealthReader, settings: Settings, target: ClusterSettings | None
) -> list[Diagnostic]:
    """What speaks against moving data on a cluster: errors of the rules in CRITICAL, by health alone.

    Raises:
        ClusterError: Its health cannot be read.
    """
    chosen = {code: severity for code, severity in settings.rules.items() if code in CRITICAL}
    context = RuleContext((), brokers=target.brokers if target is not None else None, health=cluster.health())
    off = dict.fromkeys(health_rules(settings).keys() - CRITICAL, "off")
    found = rules.check(context, {**chosen, **off}, (Stage.HEALTH,))
    return [finding for finding in found if finding.severity is Severity.ERROR]


def await_health(
    examine: Callable[[], HealthReport],
    timeout_s: float,
    tell: Callable[[HealthReport | ClusterError], object],
    clock: Clock | None = None,
) -> HealthReport:
    """Examine again and again until the cluster is healthy, or the time is over.

    A cluster that cannot be read is one that is not healthy yet: its brokers may be restarting.

    Args:
        examine: Makes one reading, with connections of its own.
        timeout_s: How long; no reading begins after it.
        tell: Is told of each reading after which there is another.
        clock: Tells the time.

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
            if clock.now() >= deadline:
                raise
            outcome = error
        else:
            if report.verdict is HealthVerdict.HEALTHY or clock.now() >= deadline:
                return report
            outcome = report
        tell(outcome)
        clock.sleep(max(0.0, min(pause, deadline - clock.now())))
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)


def _add_transactions(cluster: PartitionReader, health: Health) -> Health:
    """Return the reading with the open transactions of its partitions, or why they could not be read."""
    if health.quorum is not None and health.quorum.leader is None:
        why = "not read while no active controller answers"
        return replace(health, unread={**health.unread, Part.TRANSACTIONS: why})
    led = [(p.topic, p.partition) for p in health.partitions if p.leader is not None]
    try:
        reading = cluster.open_transactions(led)
    except KafkaformError as error:
        return replace(health, unread={**health.unread, Part.TRANSACTIONS: error.message})
    unread = {Part.TRANSACTIONS: reading.unread} if reading.unread else {}
    return replace(health, transactions=reading.transactions, unread={**health.unread, **unread})


def _live_topics(
    cluster: ResourceReader, desired: Collection[Desired], unchecked: dict[str, list[str]]
) -> tuple[Mapping[ResourceRef, Observed], frozenset[ResourceRef]]:
    """The declared topics that exist, and those of which it is not known."""
    wanted = frozenset(one.ref for one in desired if is_topic(one.ref) and one.state is not None)
    if not wanted:
        return {}, wanted
    try:
        observation = cluster.observe(wanted)
    except ClusterError as error:
        unchecked[_TOPICS].append(f"topics: {error.message}")
        return {}, wanted
    unseen = sorted(observation.invisible.items())
    if unseen:
        ref, why = unseen[0]
        unchecked[_TOPICS].append(f"{counted(len(unseen), 'declared topic')}, such as {ref.name}: {why}")
    return observation.resources, frozenset(observation.invisible)


def _live_groups(
    cluster: GroupReader, desired: Collection[Desired], settings: Settings, unchecked: dict[str, list[str]]
) -> tuple[Mapping[str, Group], frozenset[ResourceRef]]:
    """The groups, without undeclared ones that are ignored, and the declared ones that are not known."""
    declared = {one.ref for one in desired if is_group(one.ref)}
    try:
        reading = cluster.groups()
        unlisted = sorted(ref.name for ref in declared if ref.name not in reading.groups)
        if unlisted:  # which is either not there, or not shown to this account
            asked = cluster.groups(unlisted)
            reading = GroupReading(
                {**reading.groups, **asked.groups}, {**reading.denied, **asked.denied}, reading.unread
            )
    except ClusterError as error:
        unchecked[_GROUPS].append(f"groups: {error.message}")
        return {}, frozenset(declared)
    denied = {ref: reading.denied[ref.name] for ref in sorted(declared) if ref.name in reading.denied}
    for ref, why in [*denied.items()][:1]:
        unchecked[_GROUPS].append(f"{counted(len(denied), 'declared group')}, such as {ref.name}: {why}")
    groups = {
        name: group
        for name, group in sorted(reading.groups.items())
        if group_ref(name) in declared or not matches(name, settings.ignore)
    }
    if reading.unread:
        unchecked[_GROUPS].append(f"groups: {reading.unread}")
    partly = [group for group in groups.values() if group.unread]
    for group in partly[:1]:
        unchecked[_GROUPS].append(
            f"a part of {counted(len(partly), 'group')}, such as {group.name}: {group.unread}"
        )
    return groups, frozenset(denied)
