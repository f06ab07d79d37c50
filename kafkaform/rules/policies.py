"""A project's own policies and severities of rules in kafkaform.yaml."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kafkaform.core.model import Desired, Severity
from kafkaform.core.values import Value
from kafkaform.core.wording import join_words, nearest, quoted
from kafkaform.resources import KINDS, TOPIC, consent
from kafkaform.resources.base import WHOLE, PolicyChecked, PolicyPart, ReportProblem
from kafkaform.resources.name_globs import matches
from kafkaform.rules import Finding, Rule, RuleContext, list_entries, plugins
from kafkaform.rules.policy_fields import (
    LABEL_PREFIX,
    Constraint,
    field_hint,
    field_key,
    field_value,
    read_constraint,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

PLACEHOLDER = re.compile(r"\{([A-Za-z][^{}]*)\}")
"""Matches the placeholder of a label in a pattern; the braces of a repetition hold digits."""

CODE_PREFIX = "policy/"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


class ProjectPolicy(Value):
    """A policy of kafkaform.yaml.

    Attributes:
        kind: The kind of its resources.
        message: The start of its messages.
        names: A glob of the names of its resources.
        exempt: Globs of names that it does not apply to.
        labels: The labels of its resources.
        environments: The environments to which it applies; empty: all.
        pattern: A regular expression that the name must match.
        required: The labels that must be present.
        constraints: The bounds of fields.
        conditions: The bounds of fields of its resources, or of their parts; others are not checked.
        profiles: The profiles that its resources have; None: any, or none.
    """

    kind: str
    message: str
    names: str = "*"
    exempt: tuple[str, ...] = ()
    labels: Mapping[str, str] | None = None
    environments: tuple[str, ...] = ()
    pattern: str | None = None
    required: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    conditions: tuple[Constraint, ...] = ()
    profiles: frozenset[str] | None = None

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield the violations of its resources."""
        if self.environments and context.environment not in self.environments:
            return
        for desired in context.of_kind(self.kind):
            # A resource that is to be deleted has no fields to check.
            if desired.state is None or not self._applies_to(desired):
                continue
            kind = KINDS[self.kind]
            whole = kind.list_policy_parts(desired) if isinstance(kind, PolicyChecked) else [WHOLE]
            parts = [
                part
                for part in whole
                if all(self._holds(condition, desired, context, part) for condition in self.conditions)
            ]
            if parts or not self.conditions:
                yield from self._check_name(desired)
                yield from self._check_labels(desired)
            for constraint in self.constraints:
                for part in parts:
                    yield from self._check_field(constraint, desired, context, part)

    @property
    def explanation(self) -> str:
        """Its message, its resources, and its requirements."""
        about = f"every {self.kind}" if self.names == "*" else f"every {self.kind} named {self.names}"
        if self.labels:
            about += f" with {', '.join(f'{name}: {value}' for name, value in self.labels.items())}"
        about += f", except {', '.join(self.exempt)}" if self.exempt else ""
        wheres = [_describe_bounds(condition) for condition in self.conditions]
        about += f", where {' and '.join(wheres)}" if wheres else ""
        about += (
            f" with the profile {' or '.join(sorted(self.profiles))}" if self.profiles is not None else ""
        )
        where = f" in {', '.join(self.environments)}" if self.environments else ""
        demands = [f"the name matches {self.pattern}"] if self.pattern is not None else []
        demands += [f"there is a label {name}" for name in self.required]
        demands += map(_describe_bounds, self.constraints)
        lines = "".join(f"\n- {demand}" for demand in demands)
        return f"{self.message}\n\nA policy of kafkaform.yaml. For {about}{where}, it requires that\n{lines}"

    def _applies_to(self, desired: Desired) -> bool:
        labels, name = desired.intent.labels, desired.ref.name
        if self.profiles is not None and desired.intent.profile not in self.profiles:
            return False
        # fnmatch() ignores case on some systems; names in Kafka differ by it on all.
        is_named = fnmatchcase(name, self.names) and not matches(name, self.exempt)
        return is_named and all(labels.get(name) == value for name, value in (self.labels or {}).items())

    def _holds(self, condition: Constraint, desired: Desired, context: RuleContext, part: PolicyPart) -> bool:
        value, _ = field_value(desired, condition.path, context, part)
        return value is not None and not condition.broken(value)

    def _check_name(self, desired: Desired) -> Iterator[Finding]:
        if self.pattern is None:
            return
        missing = [
            label for label in placeholders(self.pattern) if not desired.intent.labels.get(label, "").strip()
        ]
        if missing:
            text = f"the name must match {self.pattern}, but the label {missing[0]} is missing"
            yield self._finding(desired, text, "metadata.labels")
            return
        # The value of a label is text, so its special characters are escaped.
        wanted = PLACEHOLDER.sub(
            lambda match: re.escape(desired.intent.labels[match[1].removeprefix(LABEL_PREFIX)]), self.pattern
        )
        # Not fullmatch: a pattern says itself, with ^ and $, whether it is the whole name.
        if not re.search(wanted, desired.ref.name):
            yield self._finding(
                desired, f"the name is {desired.ref.name}; it must match {wanted}", "metadata.name"
            )

    def _check_labels(self, desired: Desired) -> Iterator[Finding]:
        missing = [name for name in self.required if not desired.intent.labels.get(name, "").strip()]
        if missing:
            many = "the labels" if len(missing) > 1 else "the label"
            are = "are" if len(missing) > 1 else "is"
            text = f"{many} {' and '.join(missing)} of {desired.ref.name} {are} missing"
            yield self._finding(desired, text, "metadata.labels")

    def _check_field(
        self, constraint: Constraint, desired: Desired, context: RuleContext, part: PolicyPart
    ) -> Iterator[Finding]:
        value, owner = field_value(desired, constraint.path, context, part)
        path = part.path or constraint.path
        path = f"metadata.{constraint.path}" if constraint.path.startswith(LABEL_PREFIX) else path
        if value is None:
            must = join_words(constraint.demands())
            yield self._finding(desired, f"{constraint.label} is not set; it must be {must}", path)
            return
        wanted = constraint.broken(value)
        if wanted:
            source = f" ({owner})" if owner else ""
            must = join_words(wanted)
            is_now = f"{constraint.label} is {constraint.format(value)}{source}"
            yield self._finding(desired, f"{is_now}; it must be {must}", path)

    def _finding(self, desired: Desired, text: str, path: str) -> Finding:
        return Finding(f"{self.message.rstrip('.:')}: {text}", path=path, subject=desired)


def _describe_bounds(constraint: Constraint) -> str:
    return f"{constraint.label} is {' and '.join(constraint.demands())}"


def placeholders(pattern: str) -> list[str]:
    """Return the labels in a pattern."""
    return [name.removeprefix(LABEL_PREFIX) for name in PLACEHOLDER.findall(pattern)]


def read_policies(policies: Sequence[Mapping[str, Any]], report: ReportProblem) -> tuple[Rule, ...]:
    """Parse policies that match the schema; report problems.

    Args:
        policies: The policies in the file, without what the schema has refused.
        report: Reports a problem, by its path below `policies`.
    """
    rules: dict[str, Rule] = {}
    for index, given in enumerate(policies):
        name = given["name"]
        if not _NAME.fullmatch(name):
            report((index, "name"), f"{quoted(name)} is not a valid policy name", "use a-z, 0-9 and dashes")
        elif CODE_PREFIX + name in rules:
            report((index, "name"), f"there are two policies named {name}", "give each a name of its own")
        policy = _read_policy(given, _nest_report(report, index))
        severity = Severity(given.get("severity", Severity.ERROR.value))
        # Of two policies of one name, which is reported above, the first stays: rules need unique codes.
        rules.setdefault(CODE_PREFIX + name, _build_rule(CODE_PREFIX + name, severity, policy))
    return tuple(rules.values())


def build_limit_rule(
    name: str, members: frozenset[str], limits: Mapping[str, tuple[Constraint, ...]]
) -> Rule:
    """Return the rule of a profile's limits.

    Args:
        name: The profile, which its code has.
        members: The profile and those that extend it.
        limits: The bounds of fields by kind.
    """
    policies = [
        ProjectPolicy(kind, f"Limits of the profile {name}", constraints=constraints, profiles=members)
        for kind, constraints in limits.items()
    ]
    return _build_rule(consent.PROFILE + name, Severity.ERROR, *policies)


def _nest_report(report: ReportProblem, index: int) -> ReportProblem:
    def below(path: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False) -> None:
        report((index, *path), message, hint, key=key)

    return below


def _build_rule(code: str, severity: Severity, *policies: ProjectPolicy) -> Rule:
    def check(context: RuleContext) -> Iterator[Finding]:
        for policy in policies:
            yield from policy.check(context)

    # `Rule.explanation` is the docstring of its check.
    check.__doc__ = "\n\n".join(policy.explanation for policy in policies)
    return Rule(code, severity, check)


def _read_policy(given: Mapping[str, Any], report: ReportProblem) -> ProjectPolicy:
    kind = given.get("kind", TOPIC.name)
    match, require = given.get("match", {}), given["require"]
    pattern = require.get("name")
    if pattern is not None:
        _check_pattern(pattern, report)
    return ProjectPolicy(
        kind,
        # A block of YAML has line breaks, and a finding is one line.
        " ".join(given["message"].split()),
        match.get("name", "*"),
        tuple(match.get("except", ())),
        match.get("labels"),
        tuple(given.get("environments", ())),
        pattern,
        tuple(require.get("labels", ())),
        tuple(_read_constraints(kind, "require", require, report)),
        tuple(_read_constraints(kind, "match", match, report)),
    )


def _check_pattern(pattern: str, report: ReportProblem) -> None:
    keys = ("require", "name")
    for name in PLACEHOLDER.findall(pattern):
        label = name.removeprefix(LABEL_PREFIX)
        if not name.startswith(LABEL_PREFIX) or not label:
            hint = f"a label is written {{{LABEL_PREFIX}{label or 'team'}}}"
            report(keys, f"unknown placeholder {{{name}}} in a pattern", hint)
    try:
        # A letter stands for each placeholder, as the value of a label is escaped.
        re.compile(PLACEHOLDER.sub("x", pattern))
    except re.error as error:
        report(keys, f"{quoted(pattern)} is not a regular expression: {error}", None)


def _read_constraints(
    kind: str, section: str, given: Mapping[str, Any], report: ReportProblem
) -> Iterator[Constraint]:
    """Parse the bounds of the fields of a section of a policy."""
    for path, bounds in given.get("fields", {}).items():
        keys = (section, "fields", path)
        key = field_key(kind, path)
        if key is None:
            report(keys, f"a {kind} has no field {quoted(path)}", field_hint(kind, path), key=True)
            continue

        # The default binds this field's keys: of a variable of the loop, a closure sees the latest value.
        def tell(bound: str, message: str, keys: tuple[str, ...] = keys) -> None:
            report((*keys, bound), message, None)

        yield read_constraint(path, key, bounds, tell)


def check_severities(codes: Collection[str], policies: Iterable[Rule], report: ReportProblem) -> None:
    """Report every unknown code: a severity for it would silently have no effect.

    Plug-ins are loaded only if a code may be one of theirs.

    Raises:
        PluginFailed: A plug-in cannot be used.
    """
    known = {**list_entries(), **{policy.code: policy for policy in policies}}
    # Loading plug-ins runs code of other distributions, and takes time that most runs can save.
    if any(plugins.CODE.fullmatch(code) and code not in known for code in codes):
        plugins.load()
        known |= list_entries()
    rules = [code for code, entry in known.items() if isinstance(entry, Rule)]
    for code in codes:
        if code not in known:
            near = CODE_PREFIX + code if CODE_PREFIX + code in known else nearest(code, rules)
            hint = f"did you mean {near}?" if near else "`kafkaform rules` lists the rules"
            report((code,), f"there is no rule {quoted(code)}", hint, key=True)
        elif code not in rules:
            message = f"{code} is a note, not a rule: its severity is fixed"
            report((code,), message, "remove the line", key=True)
