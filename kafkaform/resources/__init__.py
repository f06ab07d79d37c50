"""The table of the kinds that this version manages, in the order in which plans show them."""

from __future__ import annotations

import shlex
from fnmatch import filter as matching
from typing import TYPE_CHECKING, TypeVar

from kafkaform.core.acl_fields import parse_path
from kafkaform.core.acls import USER_PREFIX, WILDCARD, ResourceType
from kafkaform.core.model import Desired, ResourceRef
from kafkaform.core.wording import code, nearest, pluralize
from kafkaform.resources.access import AccessKind
from kafkaform.resources.base import Kind
from kafkaform.resources.client_quota import ClientQuotaKind
from kafkaform.resources.client_quota.entity import USER, parse_entity
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.subject import SubjectKind, find_references
from kafkaform.resources.subject.fields import find_topic
from kafkaform.resources.topic import TopicKind
from kafkaform.resources.user import UserKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Capability = TypeVar("_Capability", bound=Kind)


class KindTable(dict[str, Kind]):
    """The kinds by name."""

    def having(self, capability: type[_Capability]) -> Iterator[_Capability]:
        """Yield the kinds with a capability, such as `Configured`."""
        return (kind for kind in self.values() if isinstance(kind, capability))


TOPIC, GROUP, ACCESS = TopicKind(), ConsumerGroupKind(), AccessKind()
KINDS = KindTable(
    {kind.name: kind for kind in (TOPIC, GROUP, ClientQuotaKind(), UserKind(), ACCESS, SubjectKind())}
)

_KIND_NAMES = {
    word.casefold(): name
    for name, kind in KINDS.items()
    for noun in (name, kind.words.noun)
    for word in (noun, pluralize(noun), f"Kafka{noun}")
} | {"acl": ACCESS.name, "acls": ACCESS.name}
"""The kinds by the words that people and other tools use for them, in lower case."""


def find_kind(word: str) -> str | None:
    """Return the kind that a word such as `topic`, `Groups` or `acl` means; None for none."""
    return _KIND_NAMES.get(word.casefold())


def nearest_name(text: str, names: Iterable[str]) -> str | None:
    """Return the name that is most similar to a text, which may have a kind before it: `topic/orders`."""
    head, _, name = text.partition("/")
    return nearest(name if name and find_kind(head) is not None else text, names)


def suggest_reference(text: str, known: Iterable[ResourceRef] | None) -> str:
    """Return the hint for a `KIND/NAME` that matches nothing.

    Args:
        known: The resources; None if they are not known.
    """
    head, slash, name = text.partition("/")
    kind = find_kind(head) if slash else TOPIC.name
    meant = text if kind is None else f"{kind}/{name or head}"
    names = [meant] if known is None and kind is not None else [*map(str, known or ())]
    near = meant if matching(names, meant) else nearest(meant, names)
    if near is not None:
        return f"did you mean {code(shlex.quote(near))}?"
    if not slash:
        return f"include the kind, as in {code(shlex.quote(meant))}"
    return "write KIND/NAME, such as `Topic/orders.v1` or `'Topic/orders.*'`"


def kind_order(name: str) -> int:
    """Return the position of a kind in plans."""
    return list(KINDS).index(name)


def topic_ref(name: str) -> ResourceRef:
    """Return the reference to a topic."""
    return ResourceRef(TOPIC.name, name)


def find_topic_of(ref: ResourceRef) -> ResourceRef | None:
    """Return the topic whose keys or values a subject describes; None for other names and kinds."""
    topic = find_topic(ref.name) if ref.kind == SubjectKind.name else None
    return None if topic is None else topic_ref(topic)


def group_ref(name: str) -> ResourceRef:
    """Return the reference to a group."""
    return ResourceRef(GROUP.name, name)


def is_topic(ref: ResourceRef) -> bool:
    """Return whether a resource is a topic."""
    return ref.kind == TOPIC.name


def is_group(ref: ResourceRef) -> bool:
    """Return whether a resource is a group."""
    return ref.kind == GROUP.name


def list_topics_read(desired: Desired) -> tuple[str, ...]:
    """Return the topics that a declared group reads; nothing reads any other kind of resource."""
    return GROUP.reads(desired.intent) if is_group(desired.ref) else ()


def list_references(desired: Desired) -> Iterator[ResourceRef]:
    """Yield the resources that a declaration names: topics of groups and subjects, users, references.

    A tombstone names nothing.
    """
    ref = desired.ref
    if desired.state is None:
        return
    yield from map(topic_ref, list_topics_read(desired))
    if ref.kind == ACCESS.name:
        yield from _list_acl_references(desired.state, ref.name)
    elif ref.kind == ClientQuotaKind.name:
        user = dict(parse_entity(ref.name).parts).get(USER)
        if user is not None:
            yield _user_ref(user)
    elif ref.kind == SubjectKind.name:
        if (topic := find_topic_of(ref)) is not None:
            yield topic
        for used in find_references(desired.state):
            yield ResourceRef(SubjectKind.name, used.subject)


def _list_acl_references(paths: Iterable[str], principal: str) -> Iterator[ResourceRef]:
    """Yield the user and the resources of ACLs; prefixes and wildcards name no single resource."""
    yield _user_ref(principal.removeprefix(USER_PREFIX))
    for path in paths:
        acl = parse_path(path, principal)
        if acl.is_prefix or acl.name == WILDCARD:
            continue
        match acl.resource_type:
            case ResourceType.TOPIC:
                yield topic_ref(acl.name)
            case ResourceType.GROUP:
                yield group_ref(acl.name)
            case ResourceType.USER:
                yield _user_ref(acl.name.removeprefix(USER_PREFIX))
            case ResourceType.CLUSTER | ResourceType.TRANSACTIONAL_ID | ResourceType.DELEGATION_TOKEN:
                pass  # of no kind


def _user_ref(name: str) -> ResourceRef:
    return ResourceRef(UserKind.name, name)


def listed_kinds(declared: Iterable[ResourceRef]) -> tuple[str, ...]:
    """Return the kinds whose undeclared resources drift and graphs list.

    Brokers are not asked about a kind that the repository does not declare, unless it is always listed.
    """
    managed = {ref.kind for ref in declared}
    return tuple(name for name, kind in KINDS.items() if kind.scope.listed or name in managed)


def misspelt_hazard(glob: str) -> str | None:
    """Return a suggestion for a hazard that does not exist; None if it does.

    A consent or a ban with a misspelt name would silently have no effect.
    """
    known = sorted(set().union(*(kind.hazards.names for kind in KINDS.values())))
    if matching(known, glob):
        return None
    near = nearest(glob, known)
    return f"did you mean {near!r}?" if near else f"hazards: {', '.join(known)}"
