"""The risk of a change of an Access, assessed from all ACLs and the settings of the authorizer.

- What a principal loses needs consent: an application that uses it stops.
- With `allow.everyone.if.no.acl.found`, the first ACL of a resource closes it to everyone else, and the
  removal of the last one opens it. If the setting is unknown, it is taken for true.
- The account that applies must not lose a right: it could not give it back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from kafkaform.core.acl_fields import covers_resources, is_covered, parse_path
from kafkaform.core.acls import EVERYONE, OPERATIONS, WILDCARD, ResourceType
from kafkaform.core.authorizer import AccessReading, AccessRequest, Authorizer, AuthorizerSettings, includes
from kafkaform.core.model import SAFE, Risk, RiskAssessment
from kafkaform.core.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.core.acls import Acl
    from kafkaform.core.model import Facts, FieldValue, State

REMOVAL, CLOSES, OPENS, OWN = "access-removal", "closes-access", "opens-access", "own-access"
HAZARDS = frozenset({REMOVAL, CLOSES, OPENS, OWN})
"""The names by which a change of an Access can be consented to or forbidden."""

_SETTING = "allow.everyone.if.no.acl.found"
_NAME_PRINCIPAL = "set clusters.NAME.authorizer.principal in kafkaform.yaml to the principal of this account"


class AccessFacts:
    """The access control of a cluster, indexed for the assessment of many changes.

    Args:
        reading: The ACLs and the settings that were read; None if they were not.
    """

    def __init__(self, reading: AccessReading | None = None) -> None:
        self.reading = reading or AccessReading((), AuthorizerSettings())

    @cached_property
    def _patterns(self) -> Counter[tuple[ResourceType, str, bool]]:
        return Counter((acl.resource_type, acl.name, acl.is_prefix) for acl in self.reading.acls)

    @cached_property
    def _by_principal(self) -> Mapping[str, Sequence[Acl]]:
        by_principal: dict[str, list[Acl]] = defaultdict(list)
        for acl in self.reading.acls:
            by_principal[acl.principal].append(acl)
        return by_principal

    def is_alone(self, acl: Acl) -> bool:
        """Return whether no other ACL applies to all resources that this one applies to."""
        resource_type, name = acl.resource_type, acl.name
        patterns = {(resource_type, WILDCARD, False), (resource_type, name, acl.is_prefix)}
        if acl.is_prefix or name != WILDCARD:
            patterns |= {(resource_type, name[:end], True) for end in range(len(name) + 1)}
        count = sum(self._patterns.get(pattern, 0) for pattern in patterns)
        # The ACL itself is among those that were read, unless it is to be created.
        return count == (1 if acl in self._by_principal.get(acl.principal, ()) else 0)

    def keeps(self, acl: Acl) -> bool:
        """Return whether a principal keeps all that an ACL allows, by its own other ACLs or everyone's."""
        acls = (*self._by_principal.get(acl.principal, ()), *self._by_principal.get(EVERYONE, ()))
        return is_covered(acl, acls)


def judge_field(path: str, principal: str, after: FieldValue, facts: Facts) -> RiskAssessment:
    """Assess the creation or deletion of one ACL."""
    try:
        acl = parse_path(path, principal)
    except ValueError as error:
        return RiskAssessment(Risk.IMPOSSIBLE, OWN, str(error), "make a new plan")
    return _judge(acl, facts, is_created=after is not None)


def judge_all(principal: str, state: State, facts: Facts, *, is_created: bool) -> RiskAssessment:
    """Assess the creation or deletion of all ACLs of a principal: the highest risk, with its reasons."""
    after: Mapping[str, FieldValue] = state if is_created else dict.fromkeys(state)
    judged = [judge_field(path, principal, value, facts) for path, value in after.items()]
    worst = max(judged, key=lambda assessment: assessment.risk, default=SAFE)
    if worst.risk is Risk.SAFE:
        return SAFE
    reasons = dict.fromkeys(
        each.reason for each in judged if (each.risk, each.hazard) == (worst.risk, worst.hazard)
    )
    return RiskAssessment(worst.risk, worst.hazard, "; ".join(reasons), worst.remedy)


def _judge(acl: Acl, facts: Facts, *, is_created: bool) -> RiskAssessment:
    access = facts.get(AccessFacts)
    settings = access.reading.settings.complete(facts.get(AuthorizerSettings))
    is_revocation = acl.is_allowed is not is_created
    if (
        is_revocation
        and (own := _judge_own(acl, access.reading.acls, settings, is_created=is_created)) is not None
    ):
        return own
    if settings.allow_everyone is not False and access.is_alone(acl):
        return _judge_default(acl, settings, is_created=is_created)
    if not is_revocation or (not is_created and access.keeps(acl)):
        return SAFE
    verb = "is denied to" if is_created else "may no longer"
    host = "" if acl.host == WILDCARD else f" from {acl.host}"
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        REMOVAL,
        f"{acl.principal} {verb} {acl.describe_right()}{host}",
        "declare it in an Access manifest if an application uses it",
    )


def _judge_default(acl: Acl, settings: AuthorizerSettings, *, is_created: bool) -> RiskAssessment:
    """Assess the first or the last ACL of resources that everyone may use without one."""
    setting = f"{_SETTING} is true" if settings.allow_everyone else f"{_SETTING} may be true (it is unknown)"
    resources = acl.describe_right().partition(" on ")[2]
    if is_created:
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            CLOSES,
            f"{setting}, so everyone may use a resource without ACLs: {resources}, where it has none, can "
            "afterwards be used only by principals that an ACL allows",
            "declare the access of all who use it in the same plan, then consent",
        )
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        OPENS,
        f"{setting}, so everyone may use a resource without ACLs: {resources}, where it has no other, can "
        "afterwards be used by everyone",
        "keep an ACL, such as one of an administrator",
    )


def _judge_own(
    acl: Acl, acls: Iterable[Acl], settings: AuthorizerSettings, *, is_created: bool
) -> RiskAssessment | None:
    """Assess a revocation that takes a right from the account that applies; None if it does not."""
    own = settings.principal
    if own is None:
        if not _is_broad(acl):
            return None
        return RiskAssessment(
            Risk.IMPOSSIBLE,
            OWN,
            f"the principal of this account is unknown, and {acl.describe_right()} may be a right of its own",
            _NAME_PRINCIPAL,
        )
    if acl.principal not in (own, EVERYONE):
        return None
    relevant = [each for each in acls if each.principal in (own, EVERYONE)]
    before = Authorizer(relevant, settings)
    after = Authorizer([*relevant, acl] if is_created else [a for a in relevant if a != acl], settings)
    # A right on a part of the resources may be lost, too: it is looked for by the names of its own ACLs.
    names = {acl.name, *(narrow.name for narrow in relevant if covers_resources(acl, narrow))}
    requests = [
        AccessRequest(own, operation, acl.resource_type, name)
        for operation in OPERATIONS[acl.resource_type]
        if includes(acl, operation)
        for name in names
    ]
    lost = dict.fromkeys(
        request.operation
        for request in requests
        if before.decide(request).is_allowed and not after.decide(request).is_allowed
    )
    if not lost:
        return None
    resources = acl.describe_right().partition(" on ")[2]
    return RiskAssessment(
        Risk.IMPOSSIBLE,
        OWN,
        f"{own}, the account that applies, would lose {listed([*lost])} on {resources}, and might be unable "
        "to undo that",
        "apply it with another account",
    )


def _is_broad(acl: Acl) -> bool:
    """Return whether an ACL is about the cluster, or about every resource of a type."""
    return acl.resource_type is ResourceType.CLUSTER or (acl.name == WILDCARD and not acl.is_prefix)
