"""`kafkaform rules`."""

from __future__ import annotations

import click

from kafkaform.errors import UsageError
from kafkaform.rules import RULES
from kafkaform.spelling import nearest


@click.command()
@click.argument("code", required=False)
def rules(code: str | None) -> int:
    """List the rules, or explain one: kafkaform rules KF109."""
    if code is None:
        for rule in sorted(RULES.values(), key=lambda r: r.code):
            click.echo(f"{rule.code}  {rule.severity.value:<8} {rule.summary}")
        return 0
    rule = RULES.get(code.upper())
    if rule is None:
        near = nearest(code, RULES)
        raise UsageError(f"there is no rule {code!r}", hint=f"did you mean {near}?" if near else None)
    click.echo(f"{rule.code} ({rule.severity.value})\n\n{rule.explanation}")
    return 0
