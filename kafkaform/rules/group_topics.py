"""Rules about the topics of a group, its initial offsets, and the protocol of the live group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, Create, Severity, Status, to_integer
from kafkaform.core.units import format_duration
from kafkaform.core.wording import counted, nearest, setting
from kafkaform.resources import GROUP, is_topic, topic_ref
from kafkaform.rules.catalogue import Finding, RuleContext, Stage, rule
from kafkaform.rules.group_values import CLASSIC, CONSUMER, SHARE, STREAMS, DeclaredGroup, group_rule
from kafkaform.rules.topic_values import DeclaredTopic, human, list_topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.resources.groups import Group

_RETENTION = "retention.ms"
_RESET = "auto.offset.reset"
# An empty group of one protocol of a pair becomes one of the other when such a client joins.
_GIVE_WAY: tuple[set[str], ...] = ({CLASSIC, CONSUMER}, {CLASSIC, STREAMS})

_SINCE = {CONSUMER: "4.0", SHARE: "4.1", STREAMS: "4.2"}
"""The first version of Kafka whose brokers support a protocol."""


@group_rule("KF208", Severity.WARNING)
def retention_below_lag(group: DeclaredGroup) -> Iterator[Finding]:
    """A topic keeps its records for less time than the group may be behind.

    If the group is down for downtime.max, or lags by lag.maxTime, it loses records. Raise the retention
    above both. retention.bytes can delete records even earlier.
    """
    for topic in group.topics:
        retention, text = _retention(topic, group.context)
        for section, field, may in (("downtime", "max", "may be down for"), ("lag", "maxTime", "may lag by")):
            allowed = group.amount(section, field)
            if allowed is not None and retention is not None and retention < allowed:
                yield Finding(
                    f"{topic} keeps records for {text}, and the group {may} {format_duration(allowed)}: "
                    "records expire before they are read",
                    _longer(group.context, topic, allowed),
                    path=f"{section}.{field}",
                )


@group_rule("KF210", Severity.WARNING, "topics")
def undeclared_topic(group: DeclaredGroup) -> Iterator[Finding]:
    """A group reads a topic that no manifest declares.

    The name may be misspelt, or another team's plans do not show that a change concerns this group.
    Declare the topic, or waive the rule and name the owner.
    """
    context = group.context
    for topic in group.topics:
        ref = topic_ref(topic)
        declared = context.declared.get(ref)
        # Manifests that were not read may declare it.
        lives = ref in context.inventory
        if declared is not None:
            if declared.state is None:
                text = f"the group reads {topic}, which is to be deleted (state: absent)"
                yield Finding(text, f"remove {topic} from topics")
        elif not context.unread and not (context.subset and lives):
            # A topic that is on the cluster is not misspelt, so only others get a similar name as a hint.
            near = nearest(topic, [each.name for each in list_topics(context)])
            hint = "declare it, or waive the rule with its owner"
            if near and not lives:
                hint = f"did you mean {near!r}?"
            elif context.subset:
                hint = "also give the path of its manifest"
            yield Finding(
                f"no manifest {'that was read ' if context.subset else ''}declares {topic}"
                + _describe_presence(context, lives=lives),
                hint,
                # Offline, and with a part of the manifests, it may be declared or live elsewhere.
                Severity.INFO if context.subset and context.facts is None else None,
            )


@rule("KF215", Severity.ERROR, stage=Stage.CHANGES, waivable=False)
def start_in_missing_topic(context: RuleContext) -> Iterator[Finding]:
    """A group would get its first offsets in a topic that does not exist.

    The commit would fail in the middle of the apply, so the change of the group is refused. Correct the
    name, or declare the topic. It is a warning for a topic that this account may not see.
    """
    creations = {p.ref: p.status for p in context.changes if isinstance(p.change, Create)}
    created = {ref for ref, status in creations.items() if status != Status.REFUSED}
    there = {*context.live, *context.inventory, *created}
    names = [ref.name for ref in there if is_topic(ref)]
    for planned in context.changes:
        for topic in sorted(GROUP.first_offsets(planned.change).values()):
            ref = topic_ref(topic)
            if ref in there:
                continue
            subject, declared = context.declared.get(planned.ref, planned.ref), context.declared.get(ref)
            if ref in context.invisible:
                text = f"{topic}: this account may not see whether it exists, and the group starts in it"
                hint = "let the account that applies describe and read it"
                yield Finding(text, hint, Severity.WARNING, "topics", subject)
                continue
            near, why = nearest(topic, names), "no manifest that was read declares it"
            hint = f"did you mean {near!r}?" if near else "declare it, or apply its manifest first"
            if ref in creations:
                why, hint = "its creation is refused", "first make its creation possible"
            elif declared is not None and declared.state is None:
                why, hint = "it is declared absent", f"remove {topic} from topics"
            text = f"initial offsets cannot be committed in {topic}: it does not exist, and {why}"
            yield Finding(text, hint, path="topics", subject=subject)


@group_rule("KF212", Severity.WARNING)
def start_of_new_partitions(group: DeclaredGroup) -> Iterator[Finding]:
    """auto.offset.reset differs from offsets.initial.

    Partitions that are added later, or whose offsets expired, start at auto.offset.reset. `latest`, the
    default, skips records, and `none` makes the client fail. With a time or a duration as
    offsets.initial, use `earliest`.
    """
    initial, reset = group.text("offsets", "initial"), group.client(_RESET)
    if initial is None or group.protocol == SHARE or initial == reset:
        return
    # A time is before any record of a partition that is added later, so `earliest` fits it.
    better, severity = "latest" if initial == "latest" else "earliest", Severity.INFO
    if reset in {"latest", "none"}:
        outcome = "skip what came before" if reset == "latest" else "make the clients fail"
        outcome, severity = f"partitions that are added later {outcome}", Severity.WARNING
    elif initial == "latest":
        outcome = "once offsets expire, the group reads from there"
    elif initial == "earliest":
        outcome = "partitions without an offset later start there, not at their first record"
    else:
        return
    default = "" if _RESET in group.declared_client else " by default"
    yield Finding(
        f"offsets.initial is {initial}, {_RESET} is {reset}{default}: {outcome}",
        f"write {setting(f'client.{_RESET}', better)}",
        severity,
        group.client_path(_RESET, "offsets.initial"),
    )


@group_rule("KF213", Severity.WARNING, "protocol", stage=Stage.LIVE)
def another_protocol(group: DeclaredGroup) -> Iterator[Finding]:
    """The live group has another protocol than its manifest.

    Between classic and consumer, Kafka converts a group while its members migrate. Share groups, and
    consumer and streams, are never converted: delete the group before clients of the other protocol join.
    """
    live = group.live
    if live is None or live.state == "Dead" or live.protocol == group.protocol:
        return
    pair = {live.protocol, group.protocol}
    # Also the groups whose first offsets an apply has committed: brokers make them classic, whatever protocol
    # their manifests declare.
    if not live.active and pair in _GIVE_WAY:
        return
    number = f"with {counted(len(live.members), 'member')}" if live.members else "without members"
    keep = f"write {setting('protocol', live.protocol)}"
    yield Finding(
        f"protocol {group.protocol} is declared, the live group is {live.protocol}, {number}",
        f"finish migrating its clients, or {keep}"
        if pair == {CLASSIC, CONSUMER}
        else f"{keep}, or {_start_anew(live, pair)}",
    )


@group_rule("KF216", Severity.ERROR, stage=Stage.LIVE)
def protocol_not_offered(group: DeclaredGroup) -> Iterator[Finding]:
    """The brokers do not support the group's protocol, or configs of groups.

    The consumer protocol and configs of groups came with Kafka 4.0, share with 4.1, streams with 4.2. In
    a rolling upgrade they work once all brokers and the feature `group.version` are upgraded. Brokers can
    also disable protocols.
    """
    facts = group.context.facts
    offered = facts.group_protocols if facts is not None else None
    if offered is None:
        return
    if group.protocol not in offered:
        text = f"this cluster does not support the {group.protocol} protocol"
        text = f"{text}: it came with Kafka {_SINCE[group.protocol]}"
        yield Finding(text, f"write {setting('protocol', CLASSIC)}", path="protocol")
    # GROUP configs came with the consumer protocol, which is therefore the sign of them.
    elif group.declared_configs and CONSUMER not in offered:
        text = f"this cluster does not support configs of groups: they came with Kafka {_SINCE[CONSUMER]}"
        yield Finding(text, "leave `config` out", path="config")


def _start_anew(live: Group, pair: set[str]) -> str:
    """Suggest how to change a group to a protocol to which Kafka cannot convert it."""
    first = "stop all of its members" if live.active else ""
    # Without members, a group of such a pair takes the protocol of the next one that joins.
    then = "" if pair in _GIVE_WAY else "delete it, with its offsets"
    return " and ".join(filter(None, (first, then)))


def _retention(topic: str, context: RuleContext) -> tuple[int | None, str]:
    """Return a topic's retention in milliseconds and as text; (None, "") if unlimited or unknown."""
    ref = topic_ref(topic)
    declared, live = context.declared.get(ref), context.live.get(ref)
    number, formatted, expires = None, "", False
    if declared is not None:
        values = DeclaredTopic(declared, context)
        value = values.find_effective(_RETENTION, kafka=True)
        number, formatted = (value.number, value.shown) if value is not None else (None, "")
        expires = declared.state is not None and "delete" in values.policies
    elif live is not None:
        text = str(live.effective.get(CONFIG_PREFIX + _RETENTION))
        number, formatted = to_integer(text), human(_RETENTION, text)
        expires = "delete" in str(live.effective.get(CONFIG_PREFIX + "cleanup.policy", "delete")).split(",")
    return (number, formatted) if expires and number is not None and number >= 0 else (None, "")


def _longer(context: RuleContext, topic: str, least: int) -> str:
    """Suggest a longer retention of a topic."""
    declared = context.declared.get(topic_ref(topic))
    if declared is None:
        return f"raise {_RETENTION} of {topic} to {format_duration(least)} or more"
    longer = DeclaredTopic(declared, context).rewrite(_RETENTION, format_duration(least))
    return f"write {longer} or more in the manifest of {topic}"


def _describe_presence(context: RuleContext, *, lives: bool) -> str:
    if context.facts is None:
        return ""
    return ", but it is on the cluster" if lives else ", nor is it on the cluster"
