"""A project's own rules, written in kafkaform.yaml: what names, labels and fields must be like.

The severities that a project gives to rules are read here, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kafkaform.core.model import Severity
from kafkaform.core.wording import nearest, quoted
from kafkaform.resources.topic import TopicKind
from kafkaform.rules import (
    Finding,
    Rule,
    entries,
    plugins,
)
from kafkaform.rules.policy_fields import (
    LABEL_PREFIX,
    Constraint,
    field_hint,
    field_key,
    field_value,
    read_constraint,
)

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from kafkaform.core.model import Desired
    from kafkaform.resources.base import ReportProblem
    from kafkaform.rules import RuleContext


PLACEHOLDER = re.compile(r"\{([A-Za-z][^{}]*)\}")
"""What stands for a label in a pattern; the braces of a repetition hold digits."""


@dataclass(frozen=True, slots=True)
class ProjectPolicy:
    """A policy of kafkaform.yaml.

    Attributes:
        kind: The kind that it is about.
        message: What the reader is told first.
        names: A glob of the names that it is about.
        labels: Labels of the resources that it is about.
        environments: Where it holds; empty: everywhere.
        pattern: What the name must be like.
        required: Labels that must be there.
        constraints: What fields must be.
    """

    kind: str
    message: str
    names: str = "*"
    labels: Mapping[str, str] | None = None
    environments: tuple[str, ...] = ()
    pattern: str | None = None
    required: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """What is wrong with the resources that it is about."""
        if self.environments and context.environment not in self.environments:
            return
        for desired in context.of_kind(self.kind):
            if desired.state is not None and self._is_about(desired):
                yield from self._name(desired)
                yield from self._labels(desired)
                for constraint in self.constraints:
                    yield from self._field(constraint, desired, context)

    @property
    def explanation(self) -> str:
        """What it says, about what, and what it asks for."""
        about = f"every {self.kind}" if self.names == "*" else f"every {self.kind} named {self.names}"
        if self.labels:
            about += f" with {', '.join(f'{name}: {value}' for name, value in self.labels.items())}"
        where = f" in {', '.join(self.environments)}" if self.environments else ""
        demands = [f"the name matches {self.pattern}"] if self.pattern is not None else []
        demands += [f"there is a label {name}" for name in self.required]
        demands += [
            f"{constraint.label} is {' and '.join(constraint.demands())}" for constraint in self.constraints
        ]
        lines = "".join(f"\n- {demand}" for demand in demands)
        return f"{self.message}\n\nA policy of kafkaform.yaml. Of {about}{where} it asks that\n{lines}"

    def _is_about(self, desired: Desired) -> bool:
        has = desired.intent.labels
        return fnmatchcase(desired.ref.name, self.names) and all(
            has.get(name) == value for name, value in (self.labels or {}).items()
        )

    def _name(self, desired: Desired) -> Iterator[Finding]:
        if self.pattern is None:
            return
        missing = [
            label for label in placeholders(self.pattern) if not desired.intent.labels.get(label, "").strip()
        ]
        if missing:
            text = f"the name must match {self.pattern}, but the label {missing[0]} is missing"
            yield self._finding(desired, text, "metadata.labels")
            return
        wanted = PLACEHOLDER.sub(
            lambda found: re.escape(desired.intent.labels[found[1].removeprefix(LABEL_PREFIX)]), self.pattern
        )
        if not re.search(wanted, desired.ref.name):
            yield self._finding(
                desired, f"the name is {desired.ref.name}; it must match {wanted}", "metadata.name"
            )

    def _labels(self, desired: Desired) -> Iterator[Finding]:
        missing = [name for name in self.required if not desired.intent.labels.get(name, "").strip()]
        if missing:
            many = "the labels" if len(missing) > 1 else "the label"
            are = "are" if len(missing) > 1 else "is"
            text = f"{many} {' and '.join(missing)} of {desired.ref.name} {are} missing"
            yield self._finding(desired, text, "metadata.labels")

    def _field(self, constraint: Constraint, desired: Desired, context: RuleContext) -> Iterator[Finding]:
        value, owner = field_value(desired, constraint.path, context)
        path = f"metadata.{constraint.path}" if constraint.path.startswith(LABEL_PREFIX) else constraint.path
        if value is None:
            must = " and ".join(constraint.demands())
            yield self._finding(desired, f"{constraint.label} is not set; it must be {must}", path)
            return
        wanted = constraint.broken(value)
        if wanted:
            whose = f" ({owner})" if owner else ""
            must = " and ".join(wanted)
            is_now = f"{constraint.label} is {constraint.shown(value)}{whose}"
            yield self._finding(desired, f"{is_now}; it must be {must}", path)

    def _finding(self, desired: Desired, text: str, path: str) -> Finding:
        return Finding(desired, f"{self.message.rstrip('.:')}: {text}", path=path)


def placeholders(pattern: str) -> list[str]:
    """The labels that a pattern names."""
    return [found.removeprefix(LABEL_PREFIX) for found in PLACEHOLDER.findall(pattern)]


CODE_PREFIX = "policy/"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


def read_policies(policies: Sequence[Mapping[str, Any]], report: ReportProblem) -> tuple[Rule, ...]:
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
            report((index, "name"), f"{quoted(name)} is not a valid policy name", "use a-z, 0-9 and dashes")
        elif CODE_PREFIX + name in rules:
            report((index, "name"), f"there are two policies named {name}", "give each a name of its own")
        policy = _policy(given, _below(report, index))
        severity = Severity(given.get("severity", Severity.ERROR.value))
        rules.setdefault(CODE_PREFIX + name, _rule(CODE_PREFIX + name, severity, policy))
    return tuple(rules.values())


def _sound(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the schema has left of a mapping."""
    return {name: value for name, value in (given or {}).items() if value is not None}


def _below(report: ReportProblem, index: int) -> ReportProblem:
    def below(path: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False) -> None:
        report((index, *path), message, hint, key=key)

    return below


def _rule(code: str, severity: Severity, policy: ProjectPolicy) -> Rule:
    def check(context: RuleContext) -> Iterator[Finding]:
        return policy.check(context)

    check.__doc__ = policy.explanation
    return Rule(code, severity, check)


def _policy(given: Mapping[str, Any], report: ReportProblem) -> ProjectPolicy:
    kind = given.get("kind", TopicKind.name)
    match, require = _sound(given.get("match")), _sound(given["require"])
    pattern = require.get("name")
    if pattern is not None:
        _check_pattern(pattern, report)
    return ProjectPolicy(
        kind,
        " ".join(given["message"].split()),
        match.get("name", "*"),
        match.get("labels"),
        tuple(given.get("environments", ())),
        pattern,
        tuple(require.get("labels", ())),
        tuple(_constraints(kind, _sound(require.get("fields")), report)),
    )


def _check_pattern(pattern: str, report: ReportProblem) -> None:
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


def _constraints(
    kind: str, fields: Mapping[str, Mapping[str, Any]], report: ReportProblem
) -> Iterator[Constraint]:
    for path, bounds in fields.items():
        place = ("require", "fields", path)
        key = field_key(kind, path)
        if key is None:
            report(place, f"a {kind} has no field {quoted(path)}", field_hint(kind, path), key=True)
            continue

        def tell(bound: str, message: str, place: tuple[str, ...] = place) -> None:
            report((*place, bound), message, None)

        yield read_constraint(path, key, _sound(bounds), tell)


def check_severities(codes: Collection[str], policies: Iterable[Rule], report: ReportProblem) -> None:
    """Report every code that no rule has: a severity for it would never hold, and nobody would be told.

    Plug-ins are loaded only where a code may be one of theirs.

    Raises:
        PluginFailed: A plug-in cannot be used.
    """
    known = {**entries(), **{policy.code: policy for policy in policies}}
    if any(plugins.CODE.fullmatch(code) and code not in known for code in codes):
        plugins.load()
        known |= entries()
    rules = [code for code, entry in known.items() if isinstance(entry, Rule)]
    for code in codes:
        if code not in known:
            near = CODE_PREFIX + code if CODE_PREFIX + code in known else nearest(code, rules)
            hint = f"did you mean {near}?" if near else "kafkaform rules lists the rules"
            report((code,), f"there is no rule {quoted(code)}", hint, key=True)
        elif code not in rules:
            message = f"{code} is a note, not a rule: its severity is fixed"
            report((code,), message, "remove the line", key=True)
