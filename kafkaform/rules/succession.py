"""Rules about topics that succeed others, and about the groups that move to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, Delete, Recreate, Severity
from kafkaform.core.wording import command, counted, listed, nearest, setting
from kafkaform.resources import GROUP, is_group, is_topic, topic_ref
from kafkaform.resources.groups import get_group
from kafkaform.resources.succession import SUCCEEDS, SuccessionFacts, SuccessionVerdict, find_predecessor
from kafkaform.rules.catalogue import Finding, RuleContext, Stage, rule
from kafkaform.rules.group_values import SHARE, DeclaredGroup, group_rule
from kafkaform.rules.topic_values import DeclaredTopic, human, list_topics, topic_rule

if TYPE_CHECKING:
    from collections.abc import Iterator


@topic_rule("KF118", Severity.ERROR, SUCCEEDS)
def invalid_predecessor(topic: DeclaredTopic) -> Iterator[Finding]:
    """A topic cannot succeed the one that `succeeds` names.

    That is itself, its own successor, one that another topic succeeds, or one that does not exist
    (information, if no name is similar: at the end of a succession, remove `succeeds`).
    """
    name, context = find_predecessor(topic.desired), topic.context
    if name is None:
        return
    others = {each.name: find_predecessor(each.desired) for each in list_topics(context)}
    rivals = [rival for rival, before in others.items() if before == name and rival != topic.name]
    ref = topic_ref(name)
    if name == topic.name or others.get(name) == topic.name:
        yield Finding(
            f"{topic.name} succeeds {'itself' if name == topic.name else 'its own successor'}", "remove it"
        )
    elif rivals:
        yield Finding(f"{name} is also succeeded by {listed(rivals)}", "keep one successor")
    elif ref not in context.declared and ref not in context.inventory and not context.invisible:
        near = nearest(name, others.keys() - {topic.name})
        hint = f"did you mean {near!r}?" if near else "remove it if the succession is over"
        unknown = context.facts is None or context.subset
        severity = Severity.INFO if near is None or unknown else None
        yield Finding(f"there is no topic {name}{' in the manifests' if unknown else ''}", hint, severity)


@topic_rule("KF119", Severity.WARNING, SUCCEEDS, stage=Stage.LIVE)
def settings_left_behind(topic: DeclaredTopic) -> Iterator[Finding]:
    """A topic does not declare a config that the topic which it succeeds has set.

    Nothing is taken over from the predecessor: the manifest says all. Declare the config, or waive the rule.
    `kafkaform new topic NAME --succeeds PREDECESSOR` writes a manifest with all that the other one declares.
    """
    name = find_predecessor(topic.desired)
    observed = topic.context.live.get(topic_ref(name)) if name is not None else None
    if observed is None:
        return
    declared = topic.desired.state or {}
    for path, value in sorted(observed.state.items()):
        if path.startswith(CONFIG_PREFIX) and value is not None and path not in declared:
            config = path.removeprefix(CONFIG_PREFIX)
            edit = topic.rewrite(config, human(config, value) if config.endswith(".ms") else value)
            copy = command("new", "topic", "NAME", options=("--succeeds", str(name)))
            yield Finding(
                f"{name} has {config} {human(config, value)}, and {topic.name} does not declare it",
                f"write {edit}; of a declared topic, {copy} copies all",
            )


@group_rule("KF217", Severity.WARNING, "topics")
def start_after_predecessor(group: DeclaredGroup) -> Iterator[Finding]:
    """A group reads a topic that succeeds another one, and does not start at its first record.

    What is written to the successor before the group moves would not be read. Write `offsets: {initial:
    earliest}`: an apply commits it once the group has read the predecessor to its end.
    """
    initial = group.text("offsets", "initial")
    successors = [
        each.name for each in list_topics(group.context) if find_predecessor(each.desired) is not None
    ]
    moved = [topic for topic in group.topics if topic in successors]
    if moved and group.protocol != SHARE and initial != "earliest":
        start = "auto.offset.reset of its members" if initial is None else initial
        yield Finding(
            f"{listed(moved)} succeeds another topic, and the group starts there at {start}",
            f"write {setting('offsets.initial', 'earliest')}",
        )


@group_rule("KF218", Severity.INFO, "topics", stage=Stage.LIVE)
def wait_for_end(group: DeclaredGroup) -> Iterator[Finding]:
    """A group gets its first offsets in a topic once it has read the topic that this one succeeds.

    So the records of a key stay in order. `kafkaform succession` lists what holds it up.
    """
    live, facts = group.live, group.context.facts
    waits = facts.get(SuccessionFacts).find_waits(live) if facts is not None and live is not None else {}
    for topic in group.topics:
        if topic in waits:
            yield Finding(f"the group does not start on {topic} yet: {waits[topic]}", _follow(topic))


@rule("KF120", Severity.ERROR, stage=Stage.CHANGES, waivable=False)
def premature_change(context: RuleContext) -> Iterator[Finding]:
    """A topic would be deleted, or a group would move on, before the end of a succession.

    A group would lose records that it has not read, or read them out of order, or the recovery window has
    not passed. Wait, or remove `succeeds` from the successor's manifest, which gives the records up.
    """
    facts = context.facts.get(SuccessionFacts) if context.facts is not None else SuccessionFacts()
    by_name = {each.name: each for each in facts.predecessors.values()}
    # The declared groups, too: the list of all groups may be denied to this account.
    observed = [get_group(live) for live in context.live.values()]
    groups = {**{group.name: group for group in observed if group is not None}, **context.groups}
    for planned in context.changes:
        subject = context.declared.get(planned.ref, planned.ref)
        if is_group(planned.ref):
            live = context.live.get(planned.ref)
            group = get_group(live) if live is not None else None
            waits = facts.find_waits(group) if group is not None else {}
            for topic in sorted(waits.keys() & {*GROUP.first_offsets(planned.change).values()}):
                text = f"the group cannot start on {topic} yet: {waits[topic]}"
                yield Finding(text, _follow(topic), subject=subject)
        elif isinstance(planned.change, Delete | Recreate) and is_topic(planned.ref):
            if (predecessor := by_name.get(planned.ref.name)) is None:
                continue
            reasons = [predecessor.recent] if predecessor.recent else []
            for name, group in sorted(groups.items()):
                if why := facts.explain_skip(predecessor, group):
                    reasons.append(f"{name} has not come to it: {why}")
                remaining = predecessor.count_remaining(group)
                if predecessor.name in group.topics and remaining:
                    reasons.append(f"{name} has not read {counted(remaining, 'record')}")
            if reasons:
                yield Finding(
                    f"{predecessor.successor} succeeds it, and that is not over: {listed(reasons)}",
                    _follow(predecessor.successor),
                    subject=subject,
                )


@rule("KF314", Severity.WARNING, stage=Stage.HEALTH)
def successions_go_on(context: RuleContext) -> Iterator[Finding]:
    """A topic succeeds another one, and a group does not go on by itself.

    Each succession is listed, as information while it goes on. `kafkaform succession` shows its groups and
    producers, and what to do.
    """
    for succession in context.successions:
        verdict = f"{succession.successor} succeeds {succession.name}: {succession.verdict.value}"
        reasons = [*succession.notes, *(group.summary for group in succession.waiting)]
        yield Finding(
            "; ".join([verdict, *reasons]),
            _follow(succession.successor),
            None if succession.verdict is SuccessionVerdict.STUCK else Severity.INFO,
            SUCCEEDS,
            context.declared.get(topic_ref(succession.successor)),
        )


def _follow(topic: str) -> str:
    return f"follow it: {command('succession', topic)}"
