"""The options of `kafkaform skew`, their checks and defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaform.cli.options import option_group, parsed_by
from kafkaform.cli.output import format_option, verbose_option
from kafkaform.config.manifests.files import DASH
from kafkaform.core.errors import UsageError
from kafkaform.core.values import Value, field
from kafkaform.core.wording import quoted
from kafkaform.inspect.skew_input import is_glob
from spark_validation.durations import parse_duration
from spark_validation.metrics import FORMATS, MetricsTable
from spark_validation.options import MAX_PARTITIONS, OPTIONS, build_job, find_contradictions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_validation.options import JobSettings, SharedOption

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_MIN_WATCHED_MS = 1_000
_MAX_WATCHED_MS = 24 * 3_600_000


class ResultHistory(Value):
    """The place of earlier results, and of those of this run.

    Attributes:
        folder: A folder of reports, or of counts of written records; None for none.
        table: A table of metrics instead; None for none.
    """

    folder: Path | None = None
    table: MetricsTable | None = None


class SkewOptions(Value):
    """The options, checked and with their defaults.

    Attributes:
        job: What is read of each topic, and what is reported of it.
        since_ms: Only records since then, in milliseconds since 1970; None for all.
        source: The files to read records from; None for the cluster.
        partitions: The partition count of a topic in files; None if not given.
        output_format: The format of the report on stdout; None for no report there.
        verbose: Whether everything is listed.
        files: The files to write, with their formats.
        history: The place of earlier results.
        master: The URL of a Spark master; None for this machine.
        remote: A Spark Connect URL.
        spark_conf: Spark settings of the user.
        read_all: Whether topics that a pattern selects are read even if their records arrive evenly.
        watch_ms: The milliseconds to watch for new records; None for the records of the log.
        class_archive: The value of `skew.classArchive` in kafkaform.yaml.
    """

    job: JobSettings
    since_ms: int | None = None
    source: str | None = None
    partitions: int | None = None
    output_format: str | None = "text"
    verbose: bool = False
    files: dict[Path, str] = field(default_factory=dict)
    history: ResultHistory = ResultHistory()
    master: str | None = None
    remote: str | None = None
    spark_conf: dict[str, str] = field(default_factory=dict)
    read_all: bool = False
    watch_ms: int | None = None
    class_archive: str = "auto"


class GivenOptions(Value):
    """The options from the command line; None where one was not given."""

    records: int | str | None
    precision: float | None
    since: int | None
    read_all: bool
    seed: int | None
    what_if: tuple[int, ...] | None
    source: str | None
    partitions: int | None
    show_keys: bool
    output_format: str
    out: tuple[Path, ...]
    verbose: bool
    history: str | None
    history_format: str | None
    master: str | None
    remote: str | None
    spark_conf: tuple[str, ...]
    watch: int | None


def shared_option(shared: SharedOption) -> Callable[..., Any]:
    """Return a decorator that adds an option of `spark_validation.options`."""
    if shared.metavar is None:
        return click.option(shared.flag, is_flag=True, help=shared.help)
    callback = parsed_by(shared.parse)
    return click.option(shared.flag, callback=callback, metavar=shared.metavar, help=shared.help)


def _parse_watch(text: str) -> int:
    length_ms = parse_duration(text)
    if not _MIN_WATCHED_MS <= length_ms <= _MAX_WATCHED_MS:
        raise ValueError(f"{quoted(text)} is not between 1s and 24h")
    return length_ms


JSON = "json"
_ENDINGS = {".txt": "text", ".json": "json", ".md": "markdown", ".html": "html"}
_OPTIONS = (
    *map(shared_option, OPTIONS),
    click.option(
        "--watch",
        callback=parsed_by(_parse_watch),
        metavar="DURATION",
        help="Wait this long (10m), and read only the records that are written meanwhile.",
    ),
    click.option(
        "--all",
        "read_all",
        is_flag=True,
        help="Read all topics that a pattern matches, also evenly spread ones without a policy.",
    ),
    click.option(
        "--from",
        "source",
        metavar="PATH",
        help="Read records from parquet or JSON files: columns key, partition, size [offset, timestamp, "
        "topic].",
    ),
    click.option(
        "--partitions",
        type=click.IntRange(1, MAX_PARTITIONS),
        metavar="N",
        help="With --from: the partition count of the topic.  [default: as declared, else as found in the "
        "records]",
    ),
    format_option("skew", "Of stdout; json has schemas/skew.schema.json."),
    click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
        multiple=True,
        metavar="FILE",
        help="Write the report to this file (*.txt, *.json, *.md, *.html; repeatable) instead of stdout, "
        "or to stdout (-).",
    ),
    verbose_option,
    click.option(
        "--history-format",
        type=click.Choice([JSON, *FORMATS]),
        help="json: reports in a folder; the others: metrics as rows of a table, by its path or its name "
        "(iceberg).  [default: what is there, else json, or parquet for a URL]",
    ),
    click.option("--master", metavar="URL", help="A Spark master.  [default: this machine]"),
    click.option("--remote", metavar="URL", help="A Spark Connect server, such as sc://host:15002."),
    click.option("--spark-conf", multiple=True, metavar="NAME=VALUE", help="A Spark setting (repeatable)."),
)


skew_options = option_group(GivenOptions, "given", *_OPTIONS)
"""Adds the options of a `GivenOptions` to a command."""


def resolve_options(given: GivenOptions, topics: Sequence[str]) -> SkewOptions:
    """Return the options with their defaults.

    Raises:
        UsageError: An option is not valid, or two contradict each other.
    """
    _check_together(given, topics)
    return SkewOptions(
        build_job(given),
        given.since,
        given.source,
        given.partitions,
        given.output_format if not given.out or DASH in given.out else None,
        given.verbose,
        _find_formats(given),
        find_history(
            given.history,
            given.history_format,
            here=given.remote is None and (given.master or "local").startswith("local"),
        ),
        given.master,
        given.remote,
        dict(map(_parse_spark_setting, given.spark_conf)),
        given.read_all,
        given.watch,
    )


def _find_formats(given: GivenOptions) -> dict[Path, str]:
    """Return the files to write, with the formats that their endings mean."""
    files = [file for file in given.out if file != DASH]
    if len({file.absolute() for file in files}) < len(files):
        raise UsageError(
            "two reports cannot be written to the same file", hint="use a different file for each"
        )
    for file in files:
        if file.suffix not in _ENDINGS:
            raise UsageError(
                f"--out {quoted(str(file))} does not show its format by its ending",
                hint=f"use one of {', '.join(_ENDINGS)}",
            )
    if files and DASH not in given.out and given.output_format != "text":
        raise UsageError(
            f"--format {given.output_format} is for stdout, and --out writes only files",
            hint="the ending of a file is its format; add --out - to print the report as well",
        )
    return {file: _ENDINGS[file.suffix] for file in files}


def _check_together(given: GivenOptions, topics: Sequence[str]) -> None:
    whole = {
        "--records": given.records,
        "--precision": given.precision,
        "--since": given.since,
        "--watch": given.watch,
    }
    contradictions = [*find_contradictions(given)]
    if given.source is not None:
        contradictions += [
            f"--from reads whole files and cannot be combined with {flag}"
            for flag, value in whole.items()
            if value is not None
        ]
        if given.read_all:
            contradictions.append("--from reads the topics of the files and cannot be combined with --all")
        if any(map(is_glob, topics)):
            contradictions.append("--from needs the full name of a topic, not a pattern")
    elif given.partitions is not None:
        contradictions.append("--partitions needs --from; a cluster has its own partition counts")
    if given.master is not None and given.remote is not None:
        contradictions.append("--master and --remote cannot be combined")
    if given.watch is not None and given.since is not None:
        contradictions.append("--watch reads new records and cannot be combined with --since")
    if contradictions:
        raise UsageError(contradictions[0], hint="use only one of them; see `kafkaform skew --help`")


def find_history(location: str | None, kind: str | None, *, here: bool = True) -> ResultHistory:
    """Find out what kind of place results are kept in.

    Args:
        location: A path, URL or table; None for no history.
        kind: One of FORMATS or `json`; None for that of the place.
        here: Whether local paths are those of this machine.

    Raises:
        UsageError: The place is a file, or a URL for reports.
    """
    if location is None:
        return ResultHistory()
    folder, is_url = Path(location), URL.match(location) is not None
    if kind != "iceberg" and folder.is_file():
        raise UsageError(f"--history {quoted(location)} is a file", hint="give a folder")
    if kind is None:
        kind = FORMATS[0] if is_url or any(folder.glob("day=*")) else JSON
    if kind == JSON:
        if is_url:
            raise UsageError(
                f"--history {quoted(location)}: reports are kept in folders of this machine",
                hint=f"give a --history-format: {', '.join(FORMATS)}",
            )
        return ResultHistory(folder)
    # Spark runs in another folder.
    is_local = here and kind != "iceberg" and not is_url
    return ResultHistory(table=MetricsTable(str(folder.absolute()) if is_local else location, kind))


def _parse_spark_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        # The value is not shown, as it may be a secret.
        raise UsageError(
            f"--spark-conf {quoted(name)}: not NAME=VALUE with a Spark setting",
            hint="write e.g. --spark-conf spark.executor.memory=4g",
        )
    return name, value
