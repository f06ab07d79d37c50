"""The risk of a change of an Access, assessed from all ACLs and the settings of the authorizer.

- What a principal loses needs consent: an application that uses it stops.
- With `allow.everyone.if.no.acl.found`, the first ACL of a resource closes it to everyone else, and the
  removal of the last one opens it. If the setting is unknown, it is taken for true.
- The account that applies must not lose a right: it could not give it back.

Some changes of a plan may wait for consent, or fail, while others are applied. So each one is assessed as if
what makes it worse in the other changes is applied, and what makes it better is not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafkaform.core.acl_fields import covers, covers_resources, is_covered, parse_path
from kafkaform.core.acls import (
    CLUSTER_NAME,
    EVERYONE,
    OPERATIONS,
    WILDCARD,
    Acl,
    ResourceType,
    describe_resource,
)
from kafkaform.core.apply_result import RECORD_TOPIC
from kafkaform.core.authorizer import AccessReading, AccessRequest, Authorizer, AuthorizerSettings, includes
from kafkaform.core.lock import NAME
from kafkaform.core.model import SAFE, Change, Facts, FieldValue, Risk, RiskAssessment, State
from kafkaform.core.values import replace
from kafkaform.core.wording import listed, setting
from kafkaform.resources.access.operations import list_values
from kafkaform.resources.base import UsageFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

REMOVAL, CLOSES, OPENS, OWN = "access-removal", "closes-access", "opens-access", "own-access"
HAZARDS = frozenset({REMOVAL, CLOSES, OPENS, OWN})
"""The names by which a change of an Access can be consented to or forbidden."""

_SETTING = "allow.everyone.if.no.acl.found"
_NAME_PRINCIPAL = "set clusters.NAME.authorizer.principal in kafkaform.yaml to the principal of this account"
_DECLARE_DEFAULT = (
    f"if it is false, Kafka's default, write {setting('authorizer.allowEveryoneIfNoAclFound', 'false')} in "
    "clusters.NAME of kafkaform.yaml"
)
_DECLARE_OWN = (
    "first declare and apply its own access; if it is a super user, name it in "
    "clusters.NAME.authorizer.superUsers"
)


class _Need(NamedTuple):
    """Operations that an account needs."""

    resource_type: ResourceType
    name: str
    operations: tuple[str, ...]


_NEEDED = (
    _Need(ResourceType.CLUSTER, CLUSTER_NAME, ("Alter", "Describe")),
    _Need(ResourceType.TOPIC, NAME, ("Read",)),
    _Need(ResourceType.GROUP, NAME, ("Read",)),
    _Need(ResourceType.TOPIC, RECORD_TOPIC, ("Read", "Write")),
)
"""What an apply of access needs besides its connection: ACLs, the lock, the record (docs/permissions.md)."""

_MAX_LISTED_GROUPS = 3
"""The most groups that a reason names, each with its topics."""
_Pattern: TypeAlias = tuple[ResourceType, str, bool]


class AccessFacts:
    """The access control of a cluster, and what the changes of a plan make of it.

    The ACLs of a principal belong to the change of its Access.

    Args:
        reading: The ACLs and the settings that were read; None if they were not.
        created: The ACLs that the changes of the plan create.
        deleted: The ACLs that they delete.
    """

    def __init__(
        self, reading: AccessReading | None = None, created: Iterable[Acl] = (), deleted: Iterable[Acl] = ()
    ) -> None:
        self.reading = reading or AccessReading((), AuthorizerSettings())
        self.created = frozenset(created)
        self.deleted = frozenset(deleted)

    @property
    def settings(self) -> AuthorizerSettings:
        """The settings of the authorizer."""
        return self.reading.settings

    @cached_property
    def before(self) -> Authorizer:
        """The authorizer before the changes."""
        return Authorizer(self.reading.acls, self.settings)

    @cached_property
    def after(self) -> Authorizer:
        """The authorizer after all changes."""
        return Authorizer((frozenset(self.reading.acls) - self.deleted) | self.created, self.settings)

    @cached_property
    def _added(self) -> Authorizer:
        return Authorizer(self.created, self.settings)

    @cached_property
    def _patterns(self) -> Counter[_Pattern]:
        return Counter(map(_get_pattern, self.reading.acls))

    @cached_property
    def _remaining_patterns(self) -> Counter[_Pattern]:
        return self._patterns - Counter(map(_get_pattern, self.deleted.intersection(self.reading.acls)))

    @cached_property
    def _created_by(self) -> Mapping[str, Sequence[Acl]]:
        return _group_by_principal(self.created)

    @cached_property
    def _live_by(self) -> Mapping[str, Sequence[Acl]]:
        return _group_by_principal(self.reading.acls)

    def list_live(self, principal: str) -> list[Acl]:
        """List the ACLs that apply to a principal: its own ones and everyone's."""
        return [acl for each in {principal, EVERYONE} for acl in self._live_by.get(each, ())]

    def is_first(self, acl: Acl) -> bool:
        """Return whether no live ACL applies to all resources that a new one applies to."""
        return not any(self._patterns.get(pattern) for pattern in _list_covering(acl))

    def is_last(self, acl: Acl) -> bool:
        """Return whether no ACL need remain that applies to all resources of a deleted one."""
        created = {_get_pattern(made) for made in self._created_by.get(acl.principal, ())}
        return not any(
            pattern in created or self._remaining_patterns.get(pattern) for pattern in _list_covering(acl)
        )

    def keeps(self, acl: Acl) -> bool:
        """Return whether a principal keeps all that an ACL allows, by its own other ACLs or everyone's."""
        live = self.list_live(acl.principal)
        if not acl.host or any(covers(each, acl._replace(is_allowed=False)) for each in live):
            return True  # no client has the host, or the right is denied: nothing is lost
        if not any(includes(acl, operation) for operation in OPERATIONS[acl.resource_type]):
            return True  # no request needs it
        remaining = [each for each in live if each not in self.deleted]
        return is_covered(acl, [*remaining, *self._created_by.get(acl.principal, ())])

    def list_consumers(self, group: str) -> set[str]:
        """List the principals that an ACL lets use this group, without those that may use every group."""
        acls = [each for by in (self.before, self._added) for each in by.find_acls(ResourceType.GROUP, group)]
        return {
            acl.principal
            for acl in acls
            if acl.is_allowed and includes(acl, "Read") and acl.name != WILDCARD and acl.principal != EVERYONE
        }

    def list_creators(self, resource_type: ResourceType, name: str) -> set[str]:
        """List the principals that get an ACL on a resource."""
        return {acl.principal for acl in self._added.find_acls(resource_type, name)}

    def may_lose(self, request: AccessRequest, principal: str) -> bool:
        """Return whether a request is allowed now, from some address, and may not be after a change.

        Args:
            principal: The principal whose ACLs change.
        """
        who = (request.principal, EVERYONE)
        live = self.before.find_acls(request.resource_type, request.name)
        added = self._added.find_acls(request.resource_type, request.name)
        for host in {"", *(acl.host for acl in (*live, *added) if acl.principal in who)} - {WILDCARD}:
            before = self._decide(live, request, host)

            def helps(acl: Acl, host: str = host) -> bool:
                asked = acl.principal in who and acl.host in (host or WILDCARD, WILDCARD)
                return acl.is_allowed and asked and includes(acl, request.operation)

            # Of the other changes, those that take the right away, and none that gives it.
            remaining = [
                acl
                for acl in live
                if acl not in self.deleted or (acl.principal != principal and not helps(acl))
            ]
            remaining += [acl for acl in added if acl.principal == principal or not helps(acl)]
            after = self._decide(remaining, request, host)
            # Unknown is worse than allowed, and better than refused.
            if before is not False and after is not True and before != after:
                return True
        return False

    def _decide(self, acls: Iterable[Acl], request: AccessRequest, host: str) -> bool | None:
        return Authorizer(acls, self.settings).decide(request, host).is_allowed


def _group_by_principal(acls: Iterable[Acl]) -> Mapping[str, Sequence[Acl]]:
    by_principal: dict[str, list[Acl]] = defaultdict(list)
    for acl in acls:
        by_principal[acl.principal].append(acl)
    return by_principal


def _get_pattern(acl: Acl) -> _Pattern:
    # There is one cluster, whether by its name or by a prefix.
    return acl.resource_type, acl.name, acl.is_prefix and acl.resource_type is not ResourceType.CLUSTER


def _list_covering(acl: Acl) -> Iterator[_Pattern]:
    """Yield the patterns that apply to all resources that an ACL applies to: a few look-ups for each ACL."""
    resource_type, name = acl.resource_type, acl.name
    yield resource_type, WILDCARD, False
    if acl.is_prefix or name != WILDCARD:
        yield _get_pattern(acl)
        yield from ((resource_type, name[:end], True) for end in range(len(name) + 1))


def foresee(changes: Sequence[Change], facts: Facts) -> Facts:
    """Return the facts with all ACLs that changes of Access create and delete, and the known settings."""
    if not changes:
        return facts
    reading = facts.get(AccessFacts).reading
    acls: dict[bool, list[Acl]] = {True: [], False: []}
    for change in changes:
        for path, value in list_values(change).items():
            # A path that is no ACL, as in a plan that was edited, is refused when it is assessed.
            with suppress(ValueError):
                acls[value is not None].append(parse_path(path, change.ref.name))
    settings = reading.settings.complete(facts.get(AuthorizerSettings))
    return facts.add_part(AccessFacts(replace(reading, settings=settings), acls[True], acls[False]))


def judge_field(path: str, principal: str, after: FieldValue, facts: Facts) -> RiskAssessment:
    """Assess the creation or deletion of one ACL."""
    try:
        acl = parse_path(path, principal)
    except ValueError as error:
        return RiskAssessment(Risk.IMPOSSIBLE, OWN, str(error), "make a new plan")
    return _judge(acl, facts.get(AccessFacts), facts.get(UsageFacts), is_created=after is not None)


def judge_all(principal: str, state: State, facts: Facts, *, is_created: bool) -> RiskAssessment:
    """Assess the creation or deletion of all ACLs of a principal: the highest risk, with all its hazards."""
    after: Mapping[str, FieldValue] = state if is_created else dict.fromkeys(state)
    judged = [judge_field(path, principal, value, facts) for path, value in after.items()]
    risk = max((assessment.risk for assessment in judged), default=Risk.SAFE)
    if risk is Risk.SAFE:
        return SAFE
    worst = [assessment for assessment in judged if assessment.risk is risk]
    hazard, *also = sorted({assessment.hazard for assessment in worst})
    reason, remedy = (
        "; ".join(dict.fromkeys(filter(None, texts)))
        for texts in zip(*((each.reason, each.remedy) for each in worst), strict=True)
    )
    return RiskAssessment(risk, hazard, reason, remedy, also=tuple(also))


def _judge(acl: Acl, access: AccessFacts, usage: UsageFacts, *, is_created: bool) -> RiskAssessment:
    if (own := _judge_own(acl, access, is_created=is_created)) is not None:
        return own
    may_be_open = access.settings.allow_everyone is not False
    if is_created and _is_unused(acl, access, usage):
        may_be_open = False
    if may_be_open and (access.is_first(acl) if is_created else access.is_last(acl)):
        return _judge_default(acl, access, usage, is_created=is_created)
    if acl.is_allowed is is_created or (not is_created and access.keeps(acl)):
        return SAFE
    verb = "is denied" if is_created else "loses"
    right = f"{acl.describe_right()}{acl.describe_host()}"
    reason = f"{acl.principal} {verb} {right}"
    remedy = "declare it in an Access manifest if an application uses it"
    if is_created and acl.principal == EVERYONE:
        reason += _describe_denied(acl, access)
        remedy = "first let applications do without it"
    reason += _describe_stopped(acl, access, usage)
    return RiskAssessment(Risk.DESTRUCTIVE, REMOVAL, reason, remedy)


def _is_unused(acl: Acl, access: AccessFacts, usage: UsageFacts) -> bool:
    """Return whether an ACL closes nothing that is used: a topic or group that does not exist yet.

    Only where the setting is unknown, and may be Kafka's default, by which nothing is open. If everyone may
    use what has no ACL, brokers show it to this account: what they do not show does not exist.
    """
    live = {ResourceType.TOPIC: usage.topics, ResourceType.GROUP: usage.live_groups}.get(acl.resource_type)
    if access.settings.allow_everyone or live is None or acl.is_prefix or acl.name in (WILDCARD, *live):
        return False
    return not _describe_stopped(acl, access, usage)


def _describe_stopped(acl: Acl, access: AccessFacts, usage: UsageFacts) -> str:
    """Describe which declared groups can no longer read topics that an ACL applies to; empty if none."""
    stopped = []
    for group, topics in usage.readers.items():
        is_about_group = _applies(acl, ResourceType.GROUP, group)
        concerned = [each for each in topics if is_about_group or _applies(acl, ResourceType.TOPIC, each)]
        # Of a group that no ACL names, the principal is unknown: one without ACLs stands for it.
        consumers = access.list_consumers(group) if concerned else set()
        asked = consumers or {EVERYONE}
        lost = [
            topic
            for topic in concerned
            if any(_can_consume(access.before, each, group, topic) for each in asked)
            and not any(_can_consume(access.after, each, group, topic) for each in asked)
        ]
        if lost:
            unknown = "" if consumers else ", whose principal no ACL names,"
            stopped.append(f"ConsumerGroup {group}{unknown} can no longer read {listed(lost)}")
    return f"; {listed(stopped, _MAX_LISTED_GROUPS, noun='group')}" if stopped else ""


def _can_consume(authorizer: Authorizer, principal: str, group: str, topic: str) -> bool:
    asked = ((ResourceType.GROUP, group), (ResourceType.TOPIC, topic))
    decisions = (authorizer.decide(AccessRequest(principal, "Read", *resource)) for resource in asked)
    # What depends on a setting that is unknown is taken for possible.
    return all(decision.is_allowed is not False for decision in decisions)


def _describe_denied(acl: Acl, access: AccessFacts) -> str:
    """Describe who loses what everyone is denied; super users do not."""
    grants = access.before.list_grants(acl.operation, acl.resource_type, acl.name)
    names = [grant.principal for grant in grants if grant.acl is not None]
    return f"{f', which {listed(names)} may do now' if names else ''}; super users keep it"


def _select_names(acl: Acl, usage: UsageFacts) -> Sequence[str]:
    """Return the names of live topics or groups that an ACL applies to."""
    by_type = {ResourceType.TOPIC: usage.topics, ResourceType.GROUP: usage.groups}
    return [name for name in by_type.get(acl.resource_type, ()) if _applies(acl, acl.resource_type, name)]


def _judge_default(acl: Acl, access: AccessFacts, usage: UsageFacts, *, is_created: bool) -> RiskAssessment:
    """Assess the first or the last ACL of resources that everyone may use without one."""
    is_known = access.settings.allow_everyone is not None
    setting = f"{_SETTING} is true" if is_known else f"{_SETTING} may be true: it is unknown"
    resources = acl.describe_right().partition(" on ")[2]
    if is_created:
        reason = (
            f"everyone may use {resources} while no ACL applies ({setting}), and afterwards only those "
            f"whom an ACL allows{_describe_closed(acl, access, usage)}"
        )
        remedy = "declare the access of all who use it in the same plan, then consent"
        remedy = remedy if is_known else f"{_DECLARE_DEFAULT}; otherwise {remedy}"
        return RiskAssessment(Risk.DESTRUCTIVE, CLOSES, reason, remedy)
    find_remaining = access.after.find_acls
    opened = [name for name in _select_names(acl, usage) if not find_remaining(acl.resource_type, name)]
    reason = (
        f"everyone may use {resources} afterwards, where no other ACL applies ({setting})"
        f"{_describe_names('opens', acl, opened)}"
    )
    remedy = "keep an ACL, such as one of an administrator"
    remedy = remedy if is_known else f"{_DECLARE_DEFAULT}; otherwise {remedy}"
    return RiskAssessment(Risk.DESTRUCTIVE, OPENS, reason, remedy)


def _describe_closed(acl: Acl, access: AccessFacts, usage: UsageFacts) -> str:
    """Describe which live topics or groups an ACL closes, and who loses them."""
    resource_type = acl.resource_type
    closed = [name for name in _select_names(acl, usage) if not access.before.find_acls(resource_type, name)]
    creators = {each for name in closed for each in access.list_creators(resource_type, name)} - {
        acl.principal
    }
    text = f"{_describe_names('closes', acl, closed)}{_describe_stopped(acl, access, usage)}"
    # Their ACLs may wait for another consent.
    waiting = f"; it is closed to {listed(sorted(creators))}, too, until what this plan gives them is applied"
    return text + waiting if creators else text


def _describe_names(verb: str, acl: Acl, names: Sequence[str]) -> str:
    """Name the topics or groups that exist and that a prefix or `*` opens or closes."""
    if not acl.is_prefix and acl.name != WILDCARD:
        return ""
    return f"; it {verb} {listed(names)}" if names else f"; it {verb} none that exists now"


def _judge_own(acl: Acl, access: AccessFacts, *, is_created: bool) -> RiskAssessment | None:
    """Assess what a change takes from the account that applies; None if that keeps its rights."""
    is_revocation, own = acl.is_allowed is not is_created and acl.host != "", access.settings.principal
    needed = [need for need in _NEEDED if _applies(acl, need.resource_type, need.name)]
    # The first ACL of a resource takes away what everyone may do without one.
    closed = [
        need
        for need in needed
        if is_created and access.settings.allow_everyone is not False
        if not access.before.find_acls(need.resource_type, need.name)
    ]
    if own is None:
        if not closed and not (is_revocation and (needed or _is_broad(acl))):
            return None
        taken = acl.describe_right() if is_revocation else "what everyone may do without an ACL"
        reason = f"the principal of this account is unknown, and {taken} may be a right of its own"
        return RiskAssessment(Risk.IMPOSSIBLE, OWN, reason, _NAME_PRINCIPAL)
    lost: dict[str, list[str]] = defaultdict(list)
    for need in closed:
        for operation in need.operations:
            if access.may_lose(AccessRequest(own, operation, need.resource_type, need.name), acl.principal):
                lost[describe_resource(need.resource_type, need.name)].append(operation)
    if is_revocation and acl.principal in (own, EVERYONE):
        # A right on a part of the resources may be lost, too: it is looked for by the names that its own ACLs
        # and its needs have.
        names = {acl.name, *(need.name for need in needed)}
        names |= {narrow.name for narrow in access.list_live(own) if covers_resources(acl, narrow)}
        for operation in OPERATIONS[acl.resource_type]:
            requests = (AccessRequest(own, operation, acl.resource_type, name) for name in names)
            if includes(acl, operation) and any(access.may_lose(each, acl.principal) for each in requests):
                lost[acl.describe_right().partition(" on ")[2]].append(operation)
    if not lost:
        return None
    rights = listed([f"{listed(operations)} on {resources}" for resources, operations in lost.items()])
    return RiskAssessment(
        Risk.IMPOSSIBLE,
        OWN,
        f"{own}, the account that applies, would lose {rights}, and might be unable to undo that",
        _DECLARE_OWN if closed else "apply it with another account",
    )


def _applies(acl: Acl, resource_type: ResourceType, name: str) -> bool:
    """Return whether an ACL applies to a resource."""
    return covers_resources(acl, Acl(resource_type, name, False, "", WILDCARD, "", True))


def _is_broad(acl: Acl) -> bool:
    """Return whether an ACL is about the cluster, or about every resource of a type."""
    return acl.resource_type is ResourceType.CLUSTER or (acl.name == WILDCARD and not acl.is_prefix)
