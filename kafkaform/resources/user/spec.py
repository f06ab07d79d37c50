"""A User's spec: its SCRAM credentials, with references to passwords.

spec["scram"]   list of {"mechanism", "iterations", "password"}, as in the manifest
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from kafkaform.core.acls import USER_PREFIX
from kafkaform.core.errors import Problem
from kafkaform.core.model import Desired, FieldValue, Intent, Observed, State
from kafkaform.core.secrets import MalformedReference, Reference
from kafkaform.resources.base import Layer, ReportProblem, Written
from kafkaform.resources.user.credential import (
    MIN_ITERATIONS,
    PREFIX,
    Credential,
    LivePassword,
    parse_credential,
    parse_password,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NOT_A_NAME = re.compile(r"[^A-Z0-9_]")


def normalise(layer: Mapping[str, object], report: ReportProblem) -> Layer:
    """Check a User spec that matches the schema: passwords are references, and mechanisms are unique."""
    seen: set[str] = set()
    for index, entry in enumerate(cast("list[dict[str, Any]]", layer.get("scram", []))):
        mechanism = entry["mechanism"]
        if mechanism in seen:
            report(("scram", index), f"{mechanism} is declared twice", "keep one of the two")
        seen.add(mechanism)
        try:
            parse_password(entry["password"])
        except MalformedReference as error:
            # Not quoted: it may be the password.
            hint = "write ${env:NAME} or ${file:PATH}, which is read where kafkaform runs"
            report(("scram", index, "password"), str(error), hint)
    return dict(layer)


def resolve(layer: Layer, _report: ReportProblem) -> tuple[State | None, Intent]:
    """Split a merged User spec into the desired state (None: absent) and the intent."""
    intent = Intent(deletion_protection=bool(layer.get("deletionProtection", False)), spec=layer)
    if layer.get("state") == "absent":
        return None, intent
    state: dict[str, FieldValue] = {}
    for entry in cast("list[dict[str, Any]]", layer.get("scram", [])):
        try:
            password = parse_password(entry["password"])
        except MalformedReference:
            continue  # reported by `normalise`
        state[PREFIX + entry["mechanism"]] = str(
            Credential(entry.get("iterations", MIN_ITERATIONS), password)
        )
    return state, intent


def find_problems(desired: Desired) -> Iterator[Problem]:
    """Find problems of a user as a whole: its name, and no credential."""
    name = desired.ref.name
    if name.startswith(USER_PREFIX):
        hint = f"write metadata.name: {name.removeprefix(USER_PREFIX)}"
        yield Problem(
            "metadata.name is a principal, not the name of a user", desired.locate("metadata.name"), hint
        )
    # A user without credentials does not exist, so a plan would create it again and again.
    if not desired.state and desired.state is not None and not desired.intent.spec.get("scram"):
        yield Problem(
            f"{name} has no credential, and Kafka keeps no user without one",
            desired.locate("scram"),
            "declare one in spec.scram, or write `state: absent`",
        )


def write(observed: Observed, _config: Mapping[str, object], _under: Mapping[str, object]) -> Written:
    """Return the spec that declares credentials, those of unknown passwords with a variable of the user."""
    variable = _NOT_A_NAME.sub("_", observed.ref.name.upper())
    if variable[:1].isdigit():
        variable = f"_{variable}"
    unknown = Reference("env", f"{variable}_PASSWORD")
    scram = [
        {
            "mechanism": path.removeprefix(PREFIX),
            "iterations": credential.iterations,
            "password": str(
                unknown if isinstance(credential.password, LivePassword) else credential.password
            ),
        }
        for path, value in sorted(observed.state.items())
        if (credential := parse_credential(value)) is not None
    ]
    return Written({"scram": scram})
