"""`kafkaform rules`."""

from __future__ import annotations

import click

from kafkaform.errors import UsageError
from kafkaform.rules import entries
from kafkaform.spelling import nearest


@click.command()
@click.argument("code", required=False)
def rules(code: str | None) -> int:
    """List the rules, or explain one: kafkaform rules KF109."""
    known = entries()
    if code is None:
        for entry in known.values():
            click.echo(f"{entry.code}  {entry.severity.value:<8} {entry.summary}")
        return 0
    chosen = known.get(code.upper())
    if chosen is None:
        near = nearest(code, known)
        raise UsageError(f"there is no rule {code!r}", hint=f"did you mean {near}?" if near else None)
    click.echo(f"{chosen.code} ({chosen.severity.value})\n\n{chosen.explanation}")
    return 0
