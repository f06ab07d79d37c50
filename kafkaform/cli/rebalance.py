"""`kafkaform rebalance`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.moving import Moving, throttle_option
from kafkaform.cli.options import SectionedCommand, Where, allow_option, where_options
from kafkaform.cli.output import header, plan_format_option, show, tell, verbose_option
from kafkaform.cli.session import Session
from kafkaform.cli.show import Saving, out_option, sign_key_option
from kafkaform.core.model import Status
from kafkaform.plan.plan_signature import Purpose
from kafkaform.plan.policy import idle_grants
from kafkaform.plan.rebalancing import RebalanceRequest, make_rebalance, static_topics
from kafkaform.resources.consent import Grant

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=SectionedCommand)
@where_options
@click.option(
    "--topics",
    "globs",
    multiple=True,
    metavar="GLOB",
    shell_complete=completion.topics,
    help="Only topics whose names match (repeatable).  [default: all, including Kafka's internal topics]",
)
@click.option(
    "--remove-broker",
    "remove",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="ID",
    help="Move all replicas off this broker (repeatable). It may be down.",
)
@click.option(
    "--add-broker",
    "add",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="ID",
    help="Move replicas only to this new broker, up to its share (repeatable).",
)
@allow_option
@throttle_option
@out_option
@sign_key_option
@plan_format_option
@verbose_option
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 if there are changes, 0 if there are none.")
def rebalance(
    where: Where,
    globs: tuple[str, ...],
    remove: tuple[int, ...],
    add: tuple[int, ...],
    allow: tuple[str, ...],
    throttle: str | None,
    out: Path | None,
    sign_key: Path | None,
    output_format: str,
    verbose: bool,
    detailed_exitcode: bool,
) -> int:
    """Plan replica moves that balance the brokers, or empty one.

    This command changes nothing; apply carries the plan out. It moves as few replicas as possible, and no
    partition to fewer racks. Topics with `strategy: static` are not moved. Exits 1 if a broker to be removed
    would not be empty, or if a move is refused.
    """
    saving = Saving.prepared(out, sign_key, Purpose.APPLY)
    session = Session.start(where)
    target = session.require_cluster()
    target = replace(target, moves=Moving(throttle).over(target.moves))
    request = RebalanceRequest(
        globs, frozenset(remove), frozenset(add), _static(session), tuple(map(Grant.parse, allow))
    )
    with session.cluster() as cluster:
        made = make_rebalance(request, cluster, target)
    for idle in idle_grants(request.allow, made.plan, ()):
        tell(idle)
    about = header(session, purpose=saving.signed_for)
    saving.save(made.plan, about)
    if output_format == "text":
        show("balance", "text", made)
        click.echo()
    show("plan", output_format, made.plan, header=about, verbose=verbose)
    if out is not None and made.plan.changes:
        saving.tell(made.plan, session.where)
    if made.not_emptied or made.plan.with_status(Status.REFUSED):
        return 1
    return 2 if detailed_exitcode and made.plan.changes else 0


def _static(session: Session) -> frozenset[str]:
    """The topics that manifests place replica by replica, where there are manifests."""
    if not any(path.exists() for path in session.paths(())):
        return frozenset()
    return static_topics(session.manifests(()))
