"""From `policies:` of kafkaform.yaml to rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kafkaform.core.model import Severity
from kafkaform.core.spelling import quoted
from kafkaform.rules import Rule
from kafkaform.rules.policies.constraint import Constraint, read_constraint
from kafkaform.rules.policies.fields import LABEL_PREFIX, field_hint, field_key
from kafkaform.rules.policies.policy import PLACEHOLDER, Policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.resources.base import Report
    from kafkaform.rules import Finding, Scene

CODE_PREFIX = "policy/"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


def read_policies(policies: Sequence[Mapping[str, Any]], report: Report) -> tuple[Rule, ...]:
    """Read policies that fit the schema; what is wrong in them is reported.

    Args:
        policies: As they stand in the file; what the schema has refused is left out of them.
        report: Takes problems, by their paths from `policies`.
    """
    rules: dict[str, Rule] = {}
    for index, said in enumerate(policies):
        given = _sound(said)
        if not {"name", "message", "require"} <= given.keys():
            continue  # which the schema has reported
        name = given["name"]
        if not _NAME.fullmatch(name):
            report((index, "name"), f"{quoted(name)} is no name for a policy", "use a-z, 0-9 and dashes")
        elif CODE_PREFIX + name in rules:
            report((index, "name"), f"there are two policies named {name}", "give each a name of its own")
        policy = _policy(given, _below(report, index))
        severity = Severity(given.get("severity", Severity.ERROR.value))
        rules.setdefault(CODE_PREFIX + name, _rule(CODE_PREFIX + name, severity, policy))
    return tuple(rules.values())


def _sound(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the schema has left of a mapping."""
    return {name: value for name, value in (given or {}).items() if value is not None}


def _below(report: Report, index: int) -> Report:
    def below(path: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False) -> None:
        report((index, *path), message, hint, key=key)

    return below


def _rule(code: str, severity: Severity, policy: Policy) -> Rule:
    def check(scene: Scene) -> Iterator[Finding]:
        return policy.check(scene)

    check.__doc__ = policy.explanation
    return Rule(code, severity, check)


def _policy(given: Mapping[str, Any], report: Report) -> Policy:
    kind, match, require = given.get("kind", "Topic"), _sound(given.get("match")), _sound(given["require"])
    pattern = require.get("name")
    if pattern is not None:
        _check_pattern(pattern, report)
    return Policy(
        kind,
        " ".join(given["message"].split()),
        match.get("name", "*"),
        match.get("labels"),
        tuple(given.get("environments", ())),
        pattern,
        tuple(require.get("labels", ())),
        tuple(_constraints(kind, _sound(require.get("fields")), report)),
    )


def _check_pattern(pattern: str, report: Report) -> None:
    place = ("require", "name")
    for name in PLACEHOLDER.findall(pattern):
        label = name.removeprefix(LABEL_PREFIX)
        if not name.startswith(LABEL_PREFIX) or not label:
            hint = f"a label is written {{{LABEL_PREFIX}{label or 'team'}}}"
            report(place, f"nothing is known of {{{name}}} in a pattern", hint)
    try:
        re.compile(PLACEHOLDER.sub("x", pattern))
    except re.error as error:
        report(place, f"{quoted(pattern)} is not a regular expression: {error}", None)


def _constraints(kind: str, fields: Mapping[str, Mapping[str, Any]], report: Report) -> Iterator[Constraint]:
    for path, bounds in fields.items():
        place = ("require", "fields", path)
        key = field_key(kind, path)
        if key is None:
            report(place, f"a {kind} has no field {quoted(path)}", field_hint(kind, path), key=True)
            continue

        def tell(bound: str, message: str, place: tuple[str, ...] = place) -> None:
            report((*place, bound), message, None)

        yield read_constraint(path, key, _sound(bounds), tell)
