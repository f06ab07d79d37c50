"""The severities that a project gives to rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.spelling import nearest, quoted
from kafkaform.rules import Rule, entries, plugins
from kafkaform.rules.policies import CODE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafkaform.resources.base import Report


def check_severities(codes: Collection[str], policies: Iterable[Rule], report: Report) -> None:
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
            report((code,), message, "take the line out", key=True)
