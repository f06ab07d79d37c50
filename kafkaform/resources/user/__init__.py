"""The kind User."""

from __future__ import annotations

from functools import partial
from operator import eq
from typing import TYPE_CHECKING

from kafkaform.core.model import SAFE, Create, Delete, Observed, ResourceRef
from kafkaform.core.plans import Binding
from kafkaform.core.secrets import Reference
from kafkaform.resources.base import (
    Field,
    FieldOutcome,
    Hazards,
    Irreversible,
    KindScope,
    KindWords,
    Restorable,
    Restoration,
    UpdateContext,
    WholeChecked,
)
from kafkaform.resources.user import operations as user_operations
from kafkaform.resources.user import risk, spec
from kafkaform.resources.user.credential import PREFIX, Credential, LivePassword, are_equal, parse_credential

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaform.core.model import Facts, FieldChange, FieldValue, RiskAssessment, State

_LOST = (
    "Kafka does not return passwords: the variable or file of the manifest must have the earlier one again"
)


class _CredentialField(Field):
    """The credential of one mechanism."""

    unseen_hazard = risk.PASSWORD

    def visible(self, value: FieldValue) -> FieldValue:
        credential = parse_credential(value)
        return value if credential is None else f"iterations={credential.iterations}"

    def is_unseen(self, change: FieldChange, value: FieldValue) -> bool:
        return _get_password(value) is LivePassword.UNKNOWN and self.equal(change.before, change.after)

    def describe_later_change(self, change: FieldChange) -> str:
        # A refused login does not show which of the two is another one now.
        if self.visible(change.before) == self.visible(change.after):
            return "a login is refused now: the password, or the variable or file with it, was changed since"
        return super().describe_later_change(change)

    def equal(self, a: FieldValue, b: FieldValue) -> bool:
        return are_equal(a, b)

    def remaining(self, change: FieldChange, observed: Observed) -> FieldChange | FieldOutcome:
        # A refused login was the reason for the change: without another one, it is not known to be done.
        live, before = self.live(observed), change.before
        if _get_password(live) is LivePassword.UNKNOWN and _get_password(before) is LivePassword.CHANGED:
            return FieldOutcome.MOVED
        return super().remaining(change, observed)

    def is_intermediate(self, change: FieldChange, value: FieldValue) -> bool:
        # Planned without the password, and applied with it: only now a login shows whether it is the same.
        return None not in (change.before, change.after, value)

    def bind(self, _change: FieldChange) -> Binding:
        scope = f"of {self.path.removeprefix(PREFIX)}"
        return Binding(scope, partial(eq, scope))

    def judge(self, context: UpdateContext) -> RiskAssessment:
        before, after = context.before.get(self.path), context.after.get(self.path)
        return risk.judge(context.ref.name, self.path, before, after, context.facts)

    def default(self, _facts: Facts) -> FieldValue:
        return None

    def describe(self, before: FieldValue, after: FieldValue) -> tuple[str, tuple[str, ...]] | None:
        if before is None:
            return None
        if after is None:
            return "removed", ()
        live, declared = parse_credential(before), parse_credential(after)
        if live is None or declared is None:
            return None
        is_same = live.iterations == declared.iterations
        iterations = f"{'' if is_same else f'{live.iterations} → '}{declared.iterations} iterations"
        password = "same" if live.password == declared.password else f"{live.password} → {declared.password}"
        return f"{iterations}, password {password}", ()

    def undeclarable(self, _value: FieldValue) -> str:
        return "declare it by hand, in spec.scram: Kafka does not return passwords"

    def explain_irreversible(self, _change: FieldChange, _declared: State | None) -> Irreversible:
        return Irreversible(_LOST)


class UserKind(WholeChecked, Restorable):
    """Users with SCRAM credentials (KIP-554)."""

    name = "User"
    words = KindWords("users with SCRAM credentials", "user", "users", "its credentials", "deleted", "box")
    schema = "user"
    hazards = Hazards(risk.HAZARDS)
    # ACLs do not cover the credentials of single users.
    scope = KindScope(listed=False, reading_rights=("Describe",), is_cluster_right=True)

    normalise = staticmethod(spec.normalise)
    resolve = staticmethod(spec.resolve)
    find_problems = staticmethod(spec.find_problems)
    write = staticmethod(spec.write)
    operations = staticmethod(user_operations.operations)

    def field(self, path: str) -> Field:
        """Return the credential with this path."""
        return _CredentialField(self, path)

    def reconcile(self, state: State, observed: Observed, _facts: Facts) -> State:
        """Return the declared credentials, and the removal of live ones that are not declared."""
        return {**dict.fromkeys(observed.state), **state}

    def judge(self, _change: Create | Delete, observed: Observed | None, facts: Facts) -> RiskAssessment:
        """Assess the removal of all credentials of a user; new ones are safe."""
        return SAFE if observed is None else risk.judge_delete(observed, facts)

    def restore(self, ref: ResourceRef, state: State, _record: str) -> Restoration:
        """Return a deleted user, whose passwords are those of its references."""
        return Restoration(Observed(ref, None, state), _LOST)


def _get_password(value: FieldValue) -> Reference | LivePassword | None:
    credential = parse_credential(value)
    return None if credential is None else credential.password


def observe_user(
    name: str, live: Mapping[str, int], declared: State, log_in: Callable[[str, Reference], bool | None]
) -> Observed:
    """Return a live user, with its declared passwords compared by logging in, once with each.

    Args:
        live: The iterations of its credentials, by mechanism.
        declared: Its declared credentials; empty if it is not declared.
        log_in: Logs in by a mechanism, with a password; returns whether it was accepted, or None if it is
            unknown.
    """
    state: dict[str, FieldValue] = {}
    for mechanism, iterations in live.items():
        path = PREFIX + mechanism
        password = _get_password(declared.get(path))
        if isinstance(password, Reference):
            accepted = log_in(mechanism, password)
            if not accepted:
                password = LivePassword.UNKNOWN if accepted is None else LivePassword.CHANGED
        state[path] = str(Credential(iterations, password or LivePassword.UNKNOWN))
    return Observed(ResourceRef(UserKind.name, name), None, state)
