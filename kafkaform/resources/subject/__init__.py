"""The kind Subject: the schemas of a topic's keys or values in a schema registry."""

from __future__ import annotations

from functools import partial
from operator import eq
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.core.model import (
    SAFE,
    Desired,
    Diagnostic,
    Live,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Update,
)
from kafkaform.core.plans import Binding
from kafkaform.core.values import Value
from kafkaform.core.wording import counted, listed, quoted
from kafkaform.resources.base import (
    EditLocator,
    Field,
    Hazards,
    Irreversible,
    KindScope,
    KindWords,
    ManifestEdit,
    PlanWide,
    Restorable,
    Restoration,
    UpdateContext,
    UsageFacts,
    restore_state,
)
from kafkaform.resources.subject import operations as subject_operations
from kafkaform.resources.subject import spec
from kafkaform.resources.subject.fields import (
    COMPATIBILITY,
    CONSUMERS_FIRST,
    DELETED,
    GUARANTEES,
    NONE,
    SCHEMA,
    STATE,
    find_first_to_upgrade,
    find_topic,
)
from kafkaform.resources.subject.schema import (
    SchemaReference,
    are_equal,
    describe_difference,
    have_equal_references,
    parse_value,
    shorten,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.core.model import Change, Create, Delete, Facts, FieldChange, FieldValue, Observed, State

DELETE, LOWERED, UNCHECKED = "delete", "compatibility-lowered", "unchecked-schema"
PURGE = "delete-permanently"
UPGRADE_ORDER = "KF444"


class SubjectVersions(Live):
    """The versions of a subject in a registry.

    Attributes:
        id: The id of its schema.
    """

    version: int
    id: int

    @property
    def recorded(self) -> Mapping[str, int]:
        """The version and the id."""
        return {"version": self.version, "id": self.id}


class RegistryFacts(Value):
    """The facts of a registry that changes are assessed by.

    Attributes:
        levels: The compatibility level in force of each subject that was read.
    """

    levels: Mapping[str, str] = MappingProxyType({})


class _SchemaField(Field):
    def equal(self, a: FieldValue, b: FieldValue) -> bool:
        return are_equal(a, b)

    def describe(self, before: FieldValue, after: FieldValue) -> tuple[str, tuple[str, ...]] | None:
        old, new = parse_value(before), parse_value(after)
        if old is None or new is None or old.kept or new.kept:
            return None
        return describe_difference(old, new), ()

    def summarise(self, value: FieldValue) -> str | None:
        schema = parse_value(value)
        if schema is None:
            return None
        size = "" if schema.kept else f", {counted(len(schema.text), 'character')}"
        return f"{schema.type} {schema.digest}{size}"

    def shorten(self, value: str) -> str:
        return shorten(value)

    def bind(self, change: FieldChange) -> Binding | None:
        schema = parse_value(change.after)
        if schema is None:
            return None
        scope = f"to {schema.digest}"
        return Binding(scope, partial(eq, scope))

    def judge(self, context: UpdateContext) -> RiskAssessment:
        if context.after.get(COMPATIBILITY) != NONE:
            return SAFE  # the registry checks it, when a plan is made and when it is applied
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            UNCHECKED,
            "the compatibility level is NONE: the registry accepts any schema, and consumers may be unable "
            "to read the records",
            "declare `compatibility: BACKWARD`, or another level, in an apply before this one",
        )


class _CompatibilityField(Field):
    def bind(self, change: FieldChange) -> Binding | None:
        if change.effective_before is None:
            return None
        scope = f"from {change.effective_before}"
        return Binding(scope, partial(eq, scope))

    def judge(self, context: UpdateContext) -> RiskAssessment:
        before, after = (str(state.get(COMPATIBILITY)) for state in (context.before, context.after))
        lost = GUARANTEES.get(before, frozenset()) - GUARANTEES.get(after, frozenset())
        if not lost:
            return SAFE
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            LOWERED,
            f"later schemas need not be compatible any more ({', '.join(sorted(lost))})",
            "keep the level, or register the incompatible schema under a new subject",
        )


class _StateField(Field):
    """The state of a subject without a schema; a manifest can only declare that nothing is kept of it."""

    def explain_deferral(self, context: UpdateContext) -> str | None:
        is_deleted = context.before.get(STATE) == DELETED
        return None if is_deleted else "it exists: delete it first, by an apply with `state: absent`"

    def judge(self, _context: UpdateContext) -> RiskAssessment:
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            PURGE,
            "the registry forgets all versions and their ids: consumers cannot read the records with them",
            "wait until the last of these records is gone from the topic",
        )

    def explain_irreversible(self, _change: FieldChange, _declared: State | None) -> Irreversible:
        return Irreversible("the registry has forgotten its versions: declare a schema to register it anew")


_FIELDS: dict[str, type[Field]] = {
    SCHEMA: _SchemaField,
    COMPATIBILITY: _CompatibilityField,
    STATE: _StateField,
}


def find_references(state: State) -> tuple[SchemaReference, ...]:
    """Return the references of a declared schema."""
    schema = parse_value(state.get(SCHEMA))
    return () if schema is None else schema.references


class SubjectKind(EditLocator, PlanWide, Restorable):
    """Subjects of a schema registry with Confluent's API."""

    name = "Subject"
    words = KindWords(
        "subjects", "subject", "schemas", "its versions", "deleted", "box", service="schema registry"
    )
    schema = "subject"
    hazards = Hazards(frozenset({DELETE, PURGE, LOWERED, UNCHECKED}))
    # A registry is asked only if a manifest declares a subject.
    scope = KindScope(listed=False, prunable=True, reading_rights=())
    plan_wide_codes = frozenset({UPGRADE_ORDER})

    normalise = staticmethod(spec.normalise)
    resolve = staticmethod(spec.resolve)
    write = staticmethod(spec.write)
    operations = staticmethod(subject_operations.operations)

    def field(self, path: str) -> Field:
        """Return the field of the schema or of the compatibility level."""
        return _FIELDS.get(path, Field)(self, path)

    def judge(self, _change: Create | Delete, observed: Observed | None, _facts: Facts) -> RiskAssessment:
        """Assess the loss of all versions; a new subject is safe."""
        if observed is None:
            return SAFE
        live = observed.live
        latest = f", up to {live.version}," if isinstance(live, SubjectVersions) else ""
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            DELETE,
            f"all versions{latest} are deleted: producers cannot register, and a new consumer cannot "
            "read the records",
            "the registry keeps them until `state: purged`; stop producers and consumers first",
        )

    def locate_edit(self, desired: Desired, path: str, value: FieldValue) -> ManifestEdit | str | None:
        """Return the edit of the level, or of the text of the schema."""
        if path == STATE:
            return "it exists again: declare its schema, or delete it with `state: absent`"
        if path != SCHEMA:
            return ManifestEdit(desired, path, value)
        live, declared = parse_value(value), parse_value((desired.state or {}).get(SCHEMA))
        if live is None or declared is None:
            return "there is no schema to write"
        if live.type != declared.type or not have_equal_references(live, declared):
            return "its type or its references differ, too: edit the manifest by hand"
        return ManifestEdit(desired, path, live.text, write_text(live))

    def note_plan_wide(self, changes: Sequence[Change], facts: Facts) -> Iterable[Diagnostic]:
        """Note for each new version who has to use it first, consumers or producers."""
        readers = facts.get(UsageFacts).readers
        for change in changes:
            if change.ref.kind != self.name or not isinstance(change, Update):
                continue
            levels = [field.effective_after for field in change.fields if field.path == COMPATIBILITY]
            if not any(field.path == SCHEMA for field in change.fields):
                continue
            level = levels[0] if levels else facts.get(RegistryFacts).levels.get(change.ref.name)
            first = find_first_to_upgrade(None if level is None else str(level))
            topic = find_topic(change.ref.name)
            groups = sorted(group for group, topics in readers.items() if topic in topics)
            if first == CONSUMERS_FIRST:
                names = f": {listed(groups)}" if groups else ""
                text = f"{change.ref.name} is {level}: upgrade the consumers first{names}, then the producers"
            elif first is not None:
                names = f" ({listed(groups)})" if groups else ""
                text = f"{change.ref.name} is {level}: upgrade the producers first, then the consumers{names}"
            else:
                continue
            yield Diagnostic(UPGRADE_ORDER, Severity.WARNING, text, ref=change.ref)

    def restore(self, ref: ResourceRef, state: State, _record: str) -> Restoration:
        """Return it with its last version."""
        return restore_state(ref, state)._replace(
            lost="only its last version is registered again, with another id; "
            f"the registry may still have {quoted(ref.name)}"
        )
