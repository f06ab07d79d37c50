"""`kafkaform reset`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from kafkaform.cli import completion
from kafkaform.cli.options import ClusterSelector, SectionedCommand, allow_option, option_group, where_options
from kafkaform.cli.output import header, plan_format_option, show, tell, verbose_option
from kafkaform.cli.plan import exit_code, strict_option
from kafkaform.cli.session import Session
from kafkaform.cli.show import Saving, sign_key_option
from kafkaform.core.errors import KafkaformError, UsageError
from kafkaform.core.files import read_file, write_file
from kafkaform.core.model import Status
from kafkaform.core.offset_spec import OffsetSpec, ShiftBy, parse_offset
from kafkaform.core.values import Value
from kafkaform.inspect.resets import ResetRequest, make_reset, parse_topics, read_offsets, write_offsets
from kafkaform.plan.gate import find_idle_grants
from kafkaform.plan.plan_signature import Purpose
from kafkaform.resources import group_ref
from kafkaform.resources.consent import Grant, grant_of
from kafkaform.rules import plugins

_FILE = click.Path(path_type=Path, dir_okay=False)


class ResetTarget(Value):
    """The offsets to reset, and their new position.

    Attributes:
        shift_by: The number of records to move it by.
        from_file: A file of offsets.
        topics: Only these topics and partitions.
        allow: Consents, as they are written.
    """

    position: str | None
    shift_by: int | None
    from_file: Path | None
    topics: tuple[str, ...]
    allow: tuple[str, ...]


class ResetFiles(Value):
    """The files of the plan and of the offsets.

    Attributes:
        out: The file of the plan.
        sign_key: The file of the key that signs it.
        export: The file of the offsets.
    """

    out: Path | None
    sign_key: Path | None
    export: Path | None


class ResetOutput(Value):
    """The format of the printed plan, and its exit code.

    Attributes:
        output_format: The format of the report.
        verbose: Whether everything is listed.
        strict: Whether what holds an apply back gives the exit code 1.
    """

    output_format: str
    verbose: bool
    strict: bool


@click.command(cls=SectionedCommand)
@click.argument("group", shell_complete=completion.groups)
@where_options
@option_group(
    ResetTarget,
    "target",
    click.option(
        "--to",
        "position",
        metavar="PLACE",
        help="The new position: earliest, latest, current, an offset, a time (2026-11-01T00:00:00Z), or e.g. "
        "6h-ago.",
    ),
    click.option(
        "--shift-by", type=int, metavar="N", help="Move forward by N records, or back if N is negative."
    ),
    click.option(
        "--from-file",
        type=_FILE,
        metavar="FILE.csv",
        help="Take the offsets from a CSV file, as kafka-consumer-groups --export writes it.",
    ),
    click.option(
        "--topic",
        "topics",
        multiple=True,
        metavar="TOPIC[:P,...]",
        shell_complete=completion.topics,
        help="Only this topic, or these partitions of it, such as orders:0,3-5 (repeatable).  "
        "[default: every partition of the topics for which the group has offsets]",
    ),
    allow_option,
)
@option_group(
    ResetFiles,
    "files",
    click.option(
        "-o", "--out", type=_FILE, metavar="RESET.json", help="Save the plan to this file, for apply."
    ),
    sign_key_option,
    click.option("--export", type=_FILE, metavar="FILE.csv", help="Save the resulting offsets as CSV."),
)
@option_group(ResetOutput, "output", plan_format_option, verbose_option, strict_option)
def reset(
    group: str, where: ClusterSelector, target: ResetTarget, files: ResetFiles, output: ResetOutput
) -> int:
    """Plan an offset reset of a group.

    This command changes nothing: `kafkaform apply RESET.json` applies the plan. The plan shows how many
    records of each partition are skipped or read again. It is applied only while the group has no active
    member, and only if its offsets are still the same. `--to current --export FILE.csv` backs up the current
    offsets.
    """
    # A reset is made from options, not from manifests: it cannot be planned again for --reviewed.
    saving = Saving.prepare(files.out, files.sign_key, Purpose.APPLY)
    request = _build_request(
        group,
        target.position,
        target.shift_by,
        target.from_file,
        target.topics,
        tuple(map(Grant.parse, target.allow)),
    )
    session = Session.start(where)
    session.require_cluster()
    plugins.load()
    with session.cluster() as cluster:
        # One time for all partitions: `6h-ago` must mean the same in each.
        now_ms = int(time.time() * 1000)
        made = make_reset(request, cluster, session.settings, session.target, now_ms, tell=tell)
    for line in find_idle_grants(request.allow, made.plan, [group_ref(group)]):
        tell(line)
    about = header(session, purpose=saving.signed_for)
    if files.export is not None:
        write_file(files.export, write_offsets(made.offsets))
    saving.save(made.plan, about)
    show("plan", output.output_format, made.plan, header=about, verbose=output.verbose)
    if files.out is not None:
        waiting = made.plan.select_by_status(Status.NEEDS_CONSENT)
        consent = ("--allow", grant_of(waiting[0].ref, "offset-reset")) if waiting else ()
        saving.tell(made.plan, session.where, *consent)
    return exit_code(made.plan, detailed=False, strict=output.strict)


def _build_request(
    group: str,
    position: str | None,
    shift_by: int | None,
    from_file: Path | None,
    topics: tuple[str, ...],
    allow: tuple[Grant, ...],
) -> ResetRequest:
    given = {"--to": position, "--shift-by": shift_by, "--from-file": from_file}
    targets = [option for option, value in given.items() if value is not None]
    if len(targets) > 1:
        raise UsageError(f"{' and '.join(targets)} cannot be combined", hint="give one of them")
    if not targets:
        raise UsageError(
            "a reset needs a target", hint="use --to PLACE, --shift-by N or --from-file FILE.csv"
        )
    try:
        chosen = parse_topics(topics)
        target: OffsetSpec | None = ShiftBy(shift_by) if shift_by is not None else None
        if position is not None:
            target = parse_offset(position)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if from_file is None:
        return ResetRequest(group, target, topics=chosen, allow=allow)
    if chosen:
        raise UsageError("--from-file cannot be combined with --topic", hint="leave out --topic")
    return ResetRequest(group, offsets=_read_file(from_file, group), allow=allow)


def _read_file(file: Path, group: str) -> dict[tuple[str, int], int]:
    try:
        # Spreadsheets write a byte order mark before the first field.
        text = read_file(file).decode("utf-8-sig")
    except OSError as error:
        raise KafkaformError(f"--from-file {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise KafkaformError(f"--from-file {file}: not UTF-8") from error
    return read_offsets(text, str(file), group)
