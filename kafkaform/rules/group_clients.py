"""Rules about the settings of a group's clients, and its GROUP configs on the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ASSIGNMENT, PROTOCOL_PREFIXES
from kafkaform.core.model import Severity
from kafkaform.core.units import format_duration
from kafkaform.core.wording import join_words, setting
from kafkaform.rules.catalogue import Finding
from kafkaform.rules.group_values import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    DeclaredGroup,
    group_rule,
    human,
    short_assignors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLL_RECORDS, _POLL_INTERVAL = "max.poll.records", "max.poll.interval.ms"
_LOCK = "share.record.lock.duration.ms"
_AUTO_COMMIT, _ISOLATION = "enable.auto.commit", "isolation.level"
_DELIVERY = "guarantees.delivery"
_COOPERATIVE = "cooperative-sticky"
_EAGER = ("range", "roundrobin")
# Kafka's documentation of heartbeat.interval.ms: at most a third of the session timeout.
_BEATS = 3
"""The number of heartbeats that should fit into a session."""

_REMOTE = "group.remote.assignor"

# Brokers with these defaults would refuse a suggestion outside of them.
_BROKER_LIMITS = {"session.timeout.ms": (45_000, 60_000), "heartbeat.interval.ms": (5_000, 15_000)}
"""The least and the greatest value that brokers accept for a group, in milliseconds: the defaults of
`group.consumer.min.session.timeout.ms` and the like, for share and streams too."""


@group_rule("KF203", Severity.WARNING)
def slow_batches(group: DeclaredGroup) -> Iterator[Finding]:
    """A batch may take longer than the group waits for a member.

    A member that does not call poll() within max.poll.interval.ms loses its partitions. Keep
    max.poll.records times processing.maxTimePerRecord below it: lower max.poll.records first. In a share
    group, share.record.lock.duration.ms is the limit.
    """
    each = group.amount("processing", "maxTimePerRecord")
    records = int(group.client(_POLL_RECORDS))
    limit_name = _LOCK if group.protocol == SHARE else _POLL_INTERVAL
    limit = int(group.config(_LOCK) if group.protocol == SHARE else group.client(_POLL_INTERVAL))
    if not each or records * each < limit:
        return
    # One less, as a batch that takes exactly the limit is too late.
    fitting = (limit - 1) // each
    yield Finding(
        f"{_POLL_RECORDS} {records} x {format_duration(each)} a record is "
        f"{format_duration(records * each)}, not less than {limit_name} {human(limit_name, str(limit))}",
        f"write {setting(f'client.{_POLL_RECORDS}', fitting)} or less"
        if fitting
        else f"raise {limit_name} above {format_duration(each)}: not even one record fits",
        path=group.client_path(_POLL_RECORDS, "processing.maxTimePerRecord"),
    )


@group_rule("KF204", Severity.INFO)
def eager_assignor(group: DeclaredGroup) -> Iterator[Finding]:
    """A classic group stops all of its members in each rebalance.

    With the range and roundrobin assignors, no member reads until the rebalance is over. Migrate Java
    consumers to cooperative-sticky in two rolling restarts: first with `cooperative-sticky,range`, then
    without range. Those of librdkafka must all be stopped first.
    """
    # A group uses an assignor that all members list, and the rebalance protocol that all of these support
    # (KIP-429): one eager assignor in a list makes it eager.
    eager = [name for name in group.assignors if name in _EAGER]
    if group.protocol != CLASSIC or not eager:
        return
    names = join_words(eager)
    declared = ASSIGNMENT in group.declared_client
    alone = setting(f"client.{ASSIGNMENT}", _COOPERATIVE)
    both = setting(f"client.{ASSIGNMENT}", ",".join((_COOPERATIVE, *group.assignors)))
    yield Finding(
        f"{ASSIGNMENT} {f'names {names}' if declared else f'is {names} by default'}: "
        "all members stop in each rebalance",
        f"write {alone}, once all members have it in their lists"
        if _COOPERATIVE in group.assignors
        else f"write {both}, restart all members, then write {alone} and restart them again",
        path=group.client_path(ASSIGNMENT, "protocol"),
    )


@group_rule("KF206", Severity.WARNING)
def short_session(group: DeclaredGroup) -> Iterator[Finding]:
    """The session timeout is less than three heartbeat intervals.

    One or two lost heartbeats then remove a member. Classic groups set session.timeout.ms and
    heartbeat.interval.ms in the client, others as GROUP configs such as consumer.session.timeout.ms.
    """
    classic, prefix = group.protocol == CLASSIC, PROTOCOL_PREFIXES.get(group.protocol, "")
    names = f"{prefix}session.timeout.ms", f"{prefix}heartbeat.interval.ms"
    # In a classic group, each client brings both; in the others they are GROUP configs (KIP-848), and clients
    # may not set them.
    session, beat = (int(group.client(name) if classic else group.config(name)) for name in names)
    section, declared = ("client", group.declared_client) if classic else ("config", group.declared_configs)
    if session < _BEATS * beat:
        yield Finding(
            f"{names[0]} {human(names[0], session)} is less than "
            f"{_BEATS} x {names[1]} {human(names[1], beat)}",
            f"write {setting(f'{section}.{names[0]}', format_duration(_BEATS * beat))} or more, or "
            f"{setting(f'{section}.{names[1]}', format_duration(max(1, session // _BEATS)))} or less",
            path=next((f"{section}.{name}" for name in names if name in declared), "protocol"),
        )


@group_rule("KF209", Severity.WARNING)
def guarantee(group: DeclaredGroup) -> Iterator[Finding]:
    """The declared delivery guarantee is not met by the clients' settings.

    With enable.auto.commit, the default, a crash loses records that were committed but not processed, and
    repeats those that were processed but not committed. Exactly-once needs offsets that the producer's
    transaction commits, and isolation.level read_committed. A share group is never exactly-once.
    """
    delivery = group.text("guarantees", "delivery")
    if delivery is None or group.protocol == STREAMS:
        return
    if group.protocol == SHARE:
        if delivery == "exactly-once":
            text = "exactly-once is declared, but a share group delivers at least once"
            yield Finding(text, f"write {setting('protocol', CONSUMER)}", path=_DELIVERY)
        return
    if group.client(_AUTO_COMMIT) == "true":
        consequence, commit, severity = _AUTO_COMMITTED[delivery]
        yield Finding(
            f"{delivery} is declared, but {_describe_setting(group, _AUTO_COMMIT)}: {consequence}",
            f"write {setting(f'client.{_AUTO_COMMIT}', 'false')}, and commit {commit}",
            severity,
            group.client_path(_AUTO_COMMIT, _DELIVERY),
        )
    if delivery == "exactly-once" and group.client(_ISOLATION) != "read_committed":
        yield Finding(
            f"exactly-once is declared, but {_describe_setting(group, _ISOLATION)}: "
            "records of aborted transactions are read",
            f"write {setting(f'client.{_ISOLATION}', 'read_committed')}",
            path=group.client_path(_ISOLATION, _DELIVERY),
        )


_AUTO_COMMITTED = {
    "exactly-once": (
        "offsets are committed outside of the transaction",
        "with sendOffsetsToTransaction",
        None,
    ),
    "at-least-once": ("records that are read but not processed may be committed", "after the work", None),
    "at-most-once": (
        "records that are processed but not committed are read again",
        "before the work",
        Severity.INFO,
    ),
}
"""The effect of automatic commits on a guarantee, when to commit instead, and the severity of the finding."""


@group_rule("KF211", Severity.ERROR, waivable=False)
def refused_by_clients(group: DeclaredGroup) -> Iterator[Finding]:
    """A client setting is not allowed with the group's protocol: clients do not start.

    With the consumer protocol, a Java client that sets partition.assignment.strategy, session.timeout.ms
    or heartbeat.interval.ms throws a ConfigException; likewise other settings with other protocols.
    Remove the setting.
    """
    for name in sorted(kafka_configs.refused_by_client(group.protocol) & group.declared_client.keys()):
        text = f"clients of a {group.protocol} group do not start with {name}"
        yield Finding(text, _instead(group, name), path=f"client.{name}")


@group_rule("KF214", Severity.WARNING)
def config_of_another_protocol(group: DeclaredGroup) -> Iterator[Finding]:
    """A GROUP config has no effect on a group of this protocol.

    Kafka stores any GROUP config for any group, and uses only those of the group's protocol: consumer.*,
    share.* or streams.*. If the group is to migrate to that protocol, waive the rule.
    """
    own = PROTOCOL_PREFIXES.get(group.protocol)
    for name, value in group.declared_configs.items():
        protocol = next((p for p, prefix in PROTOCOL_PREFIXES.items() if name.startswith(prefix)), None)
        # A config of no protocol is a vendor's, which its brokers validate.
        if protocol is None or protocol == group.protocol:
            continue
        # The same setting under the name that has an effect on this group, if there is one.
        bare = name.removeprefix(PROTOCOL_PREFIXES[protocol])
        if own is None:
            moved = f"client.{bare}" if bare in kafka_configs.consumer_configs() else None
        else:
            moved = f"config.{own}{bare}" if own + bare in kafka_configs.group_configs() else None
        instead = f"write {setting(moved, human(name, value))} instead" if moved else "remove it"
        yield Finding(
            f"{name} has no effect on a {group.protocol} group",
            f"{instead}, or {'' if moved else 'write '}{setting('protocol', protocol)}",
            path=f"config.{name}",
        )


def _instead(group: DeclaredGroup, name: str) -> str:
    """Suggest a replacement for a client setting that clients refuse."""
    value = group.declared_client[name]
    match group.protocol, name:
        case (protocol, "enable.auto.commit") if protocol == SHARE:
            return "remove it: share consumers acknowledge records instead"
        case (protocol, _) if protocol == CONSUMER and name == ASSIGNMENT:
            # The brokers' default is uniform (KIP-848): only range has to be asked for.
            if short_assignors(value)[:1] == ("range",):
                return f"write {setting(f'client.{_REMOTE}', 'range')} instead"
            return "remove it: the brokers assign partitions"
        case (protocol, _) if protocol == CLASSIC and name == _REMOTE:
            return f"remove it, or write {setting('protocol', CONSUMER)}"
    moved = PROTOCOL_PREFIXES.get(group.protocol, "") + name
    # `none` is a value of auto.offset.reset that brokers do not offer.
    if moved not in kafka_configs.group_configs() or value == "none":
        return "remove it"
    if name in _BROKER_LIMITS and value.isdecimal():
        least, most = _BROKER_LIMITS[name]
        value = str(min(max(int(value), least), most))
    return f"write {setting(f'config.{moved}', human(name, value))} instead"


def _describe_setting(group: DeclaredGroup, name: str) -> str:
    """Describe a client setting with its value, and whether that is the default."""
    return f"{name} is {group.client(name)}{'' if name in group.declared_client else ' by default'}"
