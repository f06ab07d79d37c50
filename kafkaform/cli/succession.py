"""`kafkaform succession`."""

from __future__ import annotations

import click

from kafkaform.cli import completion
from kafkaform.cli.options import ClusterSelector, SectionedCommand, where_options
from kafkaform.cli.output import format_option, show
from kafkaform.cli.session import Session
from kafkaform.core.errors import UsageError
from kafkaform.core.wording import nearest
from kafkaform.inspect.successions import add_writers, read_successions
from kafkaform.plan.planning import check_identity
from kafkaform.plan.successions import map_successions
from kafkaform.resources.succession import SuccessionVerdict

_CODES = {SuccessionVerdict.OVER: 0, SuccessionVerdict.UNDER_WAY: 2, SuccessionVerdict.STUCK: 1}


@click.command(cls=SectionedCommand)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=completion.topics)
@where_options
@format_option("succession", "markdown is for an issue.")
def succession(topics: tuple[str, ...], where: ClusterSelector, output_format: str) -> int:
    """Show which groups have moved to the successor of a topic.

    Also shows what holds up the others. TOPICs are topics whose manifests have `succeeds:`; the default is
    all of them. Exits 0 if the successions are over, 2 if one is under way, 1 if one does not go on by
    itself.
    """
    session = Session.start(where)
    target = session.require_cluster()
    if output_format == "text":
        session.tell()
    desired = session.manifests(())
    known = map_successions(desired)
    for topic in topics:
        if topic not in known:
            near = nearest(topic, known)
            hint = f"did you mean {near!r}?" if near else "write `succeeds: TOPIC` into its manifest"
            raise UsageError(f"the manifest of {topic} succeeds no topic", hint=hint)
    with session.cluster() as cluster:
        check_identity(cluster.facts(), target)
        # All are read, as one can wait for an earlier one of a chain.
        read = read_successions(cluster, desired, known) if known else []
        chosen = [each for each in read if not topics or each.successor in topics]
        successions = add_writers(chosen, desired, cluster.access) if chosen else []
    show("succession", output_format, successions)
    return max((_CODES[each.verdict] for each in successions), key=(0, 2, 1).index, default=0)
