"""Rules about declared access."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.acl_fields import covers, covers_resources, parse_path, write_path
from kafkaform.core.acls import EVERYONE, WILDCARD, Acl, ResourceType
from kafkaform.core.model import Severity
from kafkaform.core.wording import nearest, quoted
from kafkaform.resources import ACCESS, PLACED, READER, placed_ref
from kafkaform.rules.catalogue import Finding, RuleContext, Stage, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaform.core.model import Desired

# These show names and settings; records are neither read nor changed.
_HARMLESS = frozenset({"Describe", "DescribeConfigs"})
_DELIMITERS = frozenset("._-:/#")


def _list_acls(context: RuleContext) -> Iterator[tuple[Desired, list[Acl]]]:
    """Yield the declared principals with their ACLs."""
    for desired in context.of_kind(ACCESS.name):
        if desired.state:
            yield desired, [parse_path(path, desired.ref.name) for path in desired.state]


@rule("KF601", Severity.WARNING)
def access_of_everyone(context: RuleContext) -> Iterator[Finding]:
    """Everyone may do more than look: an ACL of `User:*` allows it.

    ACLs of `User:*` apply to every principal that can log in, on a listener without authentication to every
    client. Name the principals that need the right, or waive the rule with the reason.
    """
    for desired, acls in _list_acls(context):
        if desired.ref.name != EVERYONE:
            continue
        for acl in acls:
            if acl.is_allowed and acl.operation not in _HARMLESS:
                message = f"everyone may {acl.describe_right()}"
                yield Finding(desired, message, "name the principals that need it", path=write_path(acl))


@rule("KF602", Severity.WARNING)
def prefix_without_delimiter(context: RuleContext) -> Iterator[Finding]:
    """A prefix of names does not end with a delimiter, and includes names of others.

    The prefix `orders` includes `orders.v1` and also `orders-internal`. The rule warns where the name of a
    declared or live topic or group shows that: it goes on with a letter or digit, or with another delimiter
    than the other names do. End the prefix with the delimiter of your names.
    """
    names = {
        ResourceType.TOPIC: _list_names(context, PLACED.name),
        ResourceType.GROUP: _list_names(context, READER.name),
    }
    for desired, acls in _list_acls(context):
        for acl in acls:
            if not acl.is_prefix or not acl.is_allowed or acl.name[-1] in _DELIMITERS:
                continue
            included = [name for name in names.get(acl.resource_type, ()) if name.startswith(acl.name)]
            following = {name[len(acl.name) : len(acl.name) + 1] for name in included} - {""}
            if len(following & _DELIMITERS) > 1 or following - _DELIMITERS:
                # Rather a name that does not go on with a dot: it shows what is included by mistake.
                example = min(
                    included, key=lambda name: (name[len(acl.name) : len(acl.name) + 1] == ".", name)
                )
                yield Finding(
                    desired,
                    f"the prefix {acl.name} includes {example}, too",
                    f"end it with a delimiter: {quoted(acl.name + '.')}",
                    path=write_path(acl),
                )


def _list_names(context: RuleContext, kind: str) -> list[str]:
    refs = {
        *(desired.ref for desired in context.of_kind(kind)),
        *(r for r in context.inventory if r.kind == kind),
    }
    return sorted(ref.name for ref in refs)


@rule("KF603", Severity.WARNING)
def group_without_topic(context: RuleContext) -> Iterator[Finding]:
    """A principal may use a declared group, and may not read a topic of it.

    A member needs Read on its group and on every topic that it subscribes to. If its principal lacks one of
    these, the whole member fails with TOPIC_AUTHORIZATION_FAILED. Write `consumes: [{group: NAME}]` without
    `topics:`, which gives Read on all topics of the manifest of the group.
    """
    # Each principal has these besides its own.
    everyone = [acl for desired, acls in _list_acls(context) if desired.ref.name == EVERYONE for acl in acls]
    topics_of: Mapping[str, tuple[str, ...]] = {
        group.ref.name: READER.reads(group.intent)
        for group in context.of_kind(READER.name)
        if group.state is not None
    }
    for desired, acls in _list_acls(context):
        for acl in acls:
            topics = topics_of.get(acl.name, ())
            # A prefix stands for groups that no manifest declares, too, whose topics are not known.
            if acl.resource_type is not ResourceType.GROUP or acl.operation != "Read" or acl.is_prefix:
                continue
            for topic in topics:
                needed = Acl(ResourceType.TOPIC, topic, False, acl.principal, acl.host, "Read", True)
                if not any(covers(granted, needed) for granted in (*acls, *everyone)):
                    yield Finding(
                        desired,
                        f"it may use the group {acl.name}, but not read its topic {topic}",
                        f"add {topic} to its topics, or leave them out to include all of the group",
                        path=write_path(acl),
                    )


@rule("KF604", Severity.WARNING, stage=Stage.LIVE)
def access_to_missing_topic(context: RuleContext) -> Iterator[Finding]:
    """An ACL names a topic that no manifest declares and that does not exist.

    The name may be misspelt, or the topic may be gone, and a later topic of that name would be open to the
    principal. Correct the name, remove the right, or declare the topic.
    """
    topics = set(_list_names(context, PLACED.name))
    for desired, acls in _list_acls(context):
        for acl in acls:
            if acl.resource_type is not ResourceType.TOPIC or acl.is_prefix or acl.name == WILDCARD:
                continue
            # In a part of the manifests, the topic may be declared by another one.
            if acl.name in topics or placed_ref(acl.name) in context.invisible or context.subset:
                continue
            near = nearest(acl.name, topics)
            yield Finding(
                desired,
                f"topic {acl.name} does not exist, and no manifest declares it",
                f"did you mean {near!r}?" if near else "remove the right, or declare the topic",
                path=write_path(acl),
            )


@rule("KF605", Severity.INFO)
def redundant_access(context: RuleContext) -> Iterator[Finding]:
    """An ACL allows nothing that another one of the same principal does not allow.

    It has no effect, and hides what a principal may really do. Remove it from the manifest; the live ACL then
    stays until it is deleted, as it makes no difference.
    """
    for desired, acls in _list_acls(context):
        for acl in acls:
            broad = next((wide for wide in acls if wide != acl and covers(wide, acl)), None)
            # Of two that include each other, both would be reported, and neither could stay.
            if broad is not None and not (covers(acl, broad) and covers_resources(acl, broad)):
                message = f"{acl.describe_right()} is included in {broad.describe_right()}"
                yield Finding(desired, message, "remove it", path=write_path(acl))
