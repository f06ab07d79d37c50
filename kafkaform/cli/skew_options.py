"""The options of `kafkaform skew`, their checks and defaults."""

from __future__ import annotations

import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import option_group
from kafkaform.cli.output import format_option, verbose_option
from kafkaform.config.manifests.files import DASH
from kafkaform.core.errors import UsageError
from kafkaform.core.offset_spec import parse_initial, time_of
from kafkaform.core.units import parse_duration
from kafkaform.core.values import Value, field
from kafkaform.core.wording import quoted
from kafkaform.inspect.skew_input import is_glob
from spark_validation.metrics import FORMATS, MetricsTable

if TYPE_CHECKING:
    from collections.abc import Sequence

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_MAX_PARTITIONS = 100_000
_RECORDS = 1_000_000
_ALL = "all"
_MAX_DIGITS = 18
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
        records: The sample size of each topic, in records.
        precision: The half width of the interval of a share to aim for; None for no aim.
        since_ms: Only records since then, in milliseconds since 1970; None for all.
        full: Whether every record is read.
        seed: The seed of the sample.
        what_if: Partition counts to predict.
        source: The files to read records from; None for the cluster.
        partitions: The partition count of a topic in files; None if not given.
        show_keys: Whether keys are reported, and not only their hashes.
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

    records: int = _RECORDS
    precision: float | None = None
    since_ms: int | None = None
    full: bool = False
    seed: int = 0
    what_if: tuple[int, ...] = ()
    source: str | None = None
    partitions: int | None = None
    show_keys: bool = False
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

    records: str | None
    precision: float | None
    since_ms: int | None
    read_all: bool
    seed: int | None
    what_if: str | None
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
    watch: str | None


def _parse_since(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    now = time.time_ns() // 1_000_000
    # A number alone could be an offset elsewhere (`--to`), and here seconds or milliseconds.
    if text.strip().isdecimal():
        raise UsageError(f"--since {quoted(text)} has no unit", hint="write e.g. 24h, 90m or 7d")
    try:
        return max(0, now - parse_duration(text))
    except ValueError:
        pass
    try:
        spec = parse_initial(text)
    except ValueError as error:
        hint = "write a duration such as 24h, or a time such as 2026-11-01T00:00:00Z"
        # A text that begins like a date gets the error of a time; others may be a wrong duration.
        reason = str(error) if text[:1].isdecimal() and "-" in text else f"{quoted(text)} is not a time"
        raise UsageError(f"--since: {reason}", hint=hint) from error
    at_ms = time_of(spec, now)
    if at_ms is None:
        raise UsageError(f"--since {quoted(text)} is not a time", hint="write e.g. 24h; leave it out for all")
    if at_ms > now:
        raise UsageError(f"--since {quoted(text)} is in the future", hint="no record can be newer")
    return at_ms


since_option = click.option(
    "--since",
    "since_ms",
    callback=_parse_since,
    metavar="TIME",
    help="Only records of this period (24h), or since this time (2026-11-01T00:00:00Z).",
)
history_option = click.option(
    "--history",
    metavar="PATH",
    help="Keep the results in this folder or table, and compare them with earlier ones.",
)
JSON = "json"
_ENDINGS = {".txt": "text", ".json": "json", ".md": "markdown", ".html": "html"}
_OPTIONS = (
    click.option(
        "--records",
        metavar="N|all",
        help=f"How many records of each topic to read; all estimates nothing.  [default: {_RECORDS}]",
    ),
    click.option(
        "--precision",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        metavar="HALF-WIDTH",
        help="Read more records if half the width of a share's confidence interval exceeds this, such as "
        "0.01.",
    ),
    since_option,
    click.option(
        "--watch",
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
        "--seed",
        type=click.IntRange(0, 2**31 - 1),
        metavar="N",
        help="The seed for the random positions that are read.  [default: random]",
    ),
    click.option("--what-if", metavar="N,...", help="Also predict these partition counts, such as 12,24,48."),
    click.option(
        "--from",
        "source",
        metavar="PATH",
        help="Read records from parquet or JSON files: columns key, partition, size [offset, timestamp, "
        "topic].",
    ),
    click.option(
        "--partitions",
        type=click.IntRange(1, _MAX_PARTITIONS),
        metavar="N",
        help="With --from: the partition count of the topic.  [default: as declared, else as found in the "
        "records]",
    ),
    click.option("--show-keys", is_flag=True, help="Show keys in the report. They may be personal data."),
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
    history_option,
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
    full = given.records == _ALL
    return SkewOptions(
        _RECORDS if given.records is None or full else _parse_records(given.records),
        given.precision,
        given.since_ms,
        full,
        secrets.randbelow(2**31) if given.seed is None else given.seed,
        () if given.what_if is None else _parse_what_if(given.what_if),
        given.source,
        given.partitions,
        given.show_keys,
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
        None if given.watch is None else _parse_watch(given.watch),
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
    from_files = given.source is not None
    contradictions = (
        (
            given.records == _ALL and given.precision is not None,
            "--records all is exact and cannot be combined with --precision",
        ),
        (given.master is not None and given.remote is not None, "--master and --remote cannot be combined"),
        (
            from_files and given.records is not None,
            "--from reads whole files and cannot be combined with --records",
        ),
        (
            from_files and given.precision is not None,
            "--from reads whole files and cannot be combined with --precision",
        ),
        (
            from_files and given.since_ms is not None,
            "--from reads whole files and cannot be combined with --since",
        ),
        (
            from_files and given.watch is not None,
            "--from reads whole files and cannot be combined with --watch",
        ),
        (
            from_files and given.read_all,
            "--from reads the topics of the files and cannot be combined with --all",
        ),
        (
            given.watch is not None and given.since_ms is not None,
            "--watch reads new records and cannot be combined with --since",
        ),
        (from_files and any(map(is_glob, topics)), "--from needs the full name of a topic, not a pattern"),
        (given.history_format is not None and given.history is None, "--history-format needs --history"),
        (
            given.partitions is not None and not from_files,
            "--partitions needs --from; a cluster has its own partition counts",
        ),
    )
    for wrong, message in contradictions:
        if wrong:
            raise UsageError(message, hint="use only one of them; see `kafkaform skew --help`")


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


def _parse_records(text: str) -> int:
    # int() takes quadratic time in the number of digits.
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS or not int(text):
        raise UsageError(f"--records: {quoted(text)} is not a number of records", hint=f"or `{_ALL}`")
    return int(text)


def _parse_watch(text: str) -> int:
    try:
        length_ms = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--watch: {error}", hint="write e.g. 10m") from error
    if not _MIN_WATCHED_MS <= length_ms <= _MAX_WATCHED_MS:
        raise UsageError(f"--watch {quoted(text)} is not between 1s and 24h")
    return length_ms


def _parse_what_if(text: str) -> tuple[int, ...]:
    counts = set()
    for part in text.split(","):
        # int() takes quadratic time in the number of digits.
        number = part.strip()
        if not number.isascii() or not number.isdecimal() or len(number) > len(str(_MAX_PARTITIONS)):
            raise UsageError(
                f"--what-if: {quoted(number)} is not a partition count",
                hint=f"write numbers from 1 to {_MAX_PARTITIONS}, such as 12,24,48",
            )
        if not 1 <= int(number) <= _MAX_PARTITIONS:
            raise UsageError(f"--what-if: {number} is not between 1 and {_MAX_PARTITIONS}")
        counts.add(int(number))
    return tuple(sorted(counts))


def _parse_spark_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        # The value is not shown, as it may be a secret.
        raise UsageError(
            f"--spark-conf {quoted(name)}: not NAME=VALUE with a Spark setting",
            hint="write e.g. --spark-conf spark.executor.memory=4g",
        )
    return name, value
