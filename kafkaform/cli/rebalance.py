"""`kafkaform rebalance`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.moving import override_throttle, throttle_option
from kafkaform.cli.options import ClusterSelector, SectionedCommand, allow_option, option_group, where_options
from kafkaform.cli.output import header, plan_format_option, show, tell, verbose_option
from kafkaform.cli.session import Session
from kafkaform.cli.show import Saving, out_option, sign_key_option
from kafkaform.core.model import Status
from kafkaform.core.values import Value, replace
from kafkaform.plan.gate import find_idle_grants
from kafkaform.plan.plan_signature import Purpose
from kafkaform.plan.rebalancing import RebalanceRequest, make_rebalance, static_topics
from kafkaform.resources.consent import Grant

if TYPE_CHECKING:
    from pathlib import Path


class RebalanceOptions(Value):
    """The replicas to move.

    Attributes:
        globs: Only topics with these names.
        remove: The brokers to empty.
        add: The brokers that receive replicas.
        allow: Consents, as they are written.
        throttle: The rate of the moves.
    """

    globs: tuple[str, ...]
    remove: tuple[int, ...]
    add: tuple[int, ...]
    allow: tuple[str, ...]
    throttle: str | None


class RebalanceOutput(Value):
    """The file of the plan, and the format in which it is printed.

    Attributes:
        out: The file of the plan.
        sign_key: The file of the key that signs it.
        output_format: The format of the report.
        verbose: Whether everything is listed.
        detailed_exitcode: Whether moves give the exit code 2.
    """

    out: Path | None
    sign_key: Path | None
    output_format: str
    verbose: bool
    detailed_exitcode: bool


@click.command(cls=SectionedCommand)
@where_options
@option_group(
    RebalanceOptions,
    "options",
    click.option(
        "--topics",
        "globs",
        multiple=True,
        metavar="GLOB",
        shell_complete=completion.topics,
        help="Only topics whose names match (repeatable).  [default: all, including Kafka's internal topics]",
    ),
    click.option(
        "--remove-broker",
        "remove",
        type=click.IntRange(min=0),
        multiple=True,
        metavar="ID",
        help="Move all replicas off this broker (repeatable). It may be down.",
    ),
    click.option(
        "--add-broker",
        "add",
        type=click.IntRange(min=0),
        multiple=True,
        metavar="ID",
        help="Move replicas only to this new broker, up to its share (repeatable).",
    ),
    allow_option,
    throttle_option,
)
@option_group(
    RebalanceOutput,
    "output",
    out_option,
    sign_key_option,
    plan_format_option,
    verbose_option,
    click.option(
        "--detailed-exitcode", is_flag=True, help="Exit 2 if there are changes, 0 if there are none."
    ),
)
def rebalance(where: ClusterSelector, options: RebalanceOptions, output: RebalanceOutput) -> int:
    """Plan replica moves that balance the brokers, or empty one.

    This command changes nothing; apply carries the plan out. It moves as few replicas as possible, and no
    partition to fewer racks. Exits 1 if a broker to be removed would not be empty, or if a move is refused.
    """
    # Moves are planned from the live cluster, not from manifests: --reviewed could not plan them again.
    saving = Saving.prepare(output.out, output.sign_key, Purpose.APPLY)
    session = Session.start(where)
    target = session.require_cluster()
    target = replace(target, moves=override_throttle(target.moves, options.throttle))
    has_manifests = any(path.exists() for path in session.paths(()))
    request = RebalanceRequest(
        options.globs,
        frozenset(options.remove),
        frozenset(options.add),
        static_topics(session.manifests(())) if has_manifests else frozenset(),
        tuple(map(Grant.parse, options.allow)),
    )
    with session.cluster() as cluster:
        made = make_rebalance(request, cluster, target)
    for line in find_idle_grants(request.allow, made.plan, ()):
        tell(line)
    about = header(session, purpose=saving.signed_for)
    # Before the report, so that the plan is kept if the output is closed early.
    saving.save(made.plan, about)
    if output.output_format == "text":
        show("balance", "text", made)
        click.echo()
    show("plan", output.output_format, made.plan, header=about, verbose=output.verbose)
    if output.out is not None and made.plan.changes:
        saving.tell(made.plan, session.where)
    # A broker that keeps replicas must not be switched off: a script has to notice that.
    if made.not_emptied or made.plan.select_by_status(Status.REFUSED):
        return 1
    return 2 if output.detailed_exitcode and made.plan.changes else 0
