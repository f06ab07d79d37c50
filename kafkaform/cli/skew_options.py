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
from kafkaform.core.errors import UsageError
from kafkaform.core.offset_spec import parse_initial, time_of
from kafkaform.core.units import parse_duration
from kafkaform.core.values import Value, asdict, field
from kafkaform.core.wording import quoted
from kafkaform.inspect.skew_input import is_glob
from spark_validation.metrics import FORMATS, MetricsTable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE = click.Path(path_type=Path, dir_okay=False)
_MAX_PARTITIONS = 100_000
_RECORDS = 1_000_000
_MIN_WATCHED_MS = 1_000
_MAX_WATCHED_MS = 24 * 3_600_000


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
        output_format: The format of the report.
        out: The file of the report; None for stdout.
        verbose: Whether everything is listed.
        artefacts: Additional files to write, by format.
        history: The folder of reports; None for none.
        metrics: The table that metrics are appended to; None for none.
        past: The table of metrics for trends, instead of `history`; None for none.
        master: The URL of a Spark master; None for this machine.
        remote: A Spark Connect URL.
        spark_conf: Spark settings of the user.
        arrivals: Whether only arrivals are counted, by offsets, without reading records.
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
    output_format: str = "text"
    out: Path | None = None
    verbose: bool = False
    artefacts: dict[str, Path] = field(default_factory=dict)
    history: Path | None = None
    metrics: MetricsTable | None = None
    past: MetricsTable | None = None
    master: str | None = None
    remote: str | None = None
    spark_conf: dict[str, str] = field(default_factory=dict)
    arrivals: bool = False
    read_all: bool = False
    watch_ms: int | None = None
    class_archive: str = "auto"


class GivenOptions(Value):
    """The options from the command line; None where one was not given."""

    records: int | None
    precision: float | None
    since: str | None
    full: bool
    seed: int | None
    what_if: str | None
    source: str | None
    partitions: int | None
    show_keys: bool
    output_format: str
    out: Path | None
    verbose: bool
    json_file: Path | None
    markdown_file: Path | None
    html_file: Path | None
    history: str | None
    metrics: str | None
    metrics_format: str | None
    master: str | None
    remote: str | None
    spark_conf: tuple[str, ...]
    arrivals: bool
    read_all: bool
    watch: str | None


_OPTIONS = (
    click.option(
        "--arrivals",
        is_flag=True,
        help="List the topics whose records arrive unevenly, by offsets alone: without Spark or any record. "
        "Counts what was written, also if it has been removed since.",
    ),
    click.option(
        "--records",
        type=click.IntRange(min=1),
        metavar="N",
        help=f"How many records of each topic to read.  [default: {_RECORDS}]",
    ),
    click.option(
        "--precision",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        metavar="HALF-WIDTH",
        help="Read more records if the half-width of a share's confidence interval exceeds this, "
        "such as 0.01.",
    ),
    click.option(
        "--since",
        metavar="TIME",
        help="Only records of this period (24h), or since this time (2026-11-01T00:00:00Z).",
    ),
    click.option(
        "--watch",
        metavar="DURATION",
        help="Wait this long (10m), and read only the records that are written meanwhile, also where "
        "compaction or retention removes records soon.",
    ),
    click.option(
        "--all",
        "read_all",
        is_flag=True,
        help="Read all topics that a pattern matches, also those without a policy whose records arrive "
        "evenly.",
    ),
    click.option("--full", is_flag=True, help="Read every record, and estimate nothing."),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**31 - 1),
        metavar="N",
        help="The seed for the random positions that are read. The report contains it.  [default: random]",
    ),
    click.option("--what-if", metavar="N,...", help="Also predict these partition counts, such as 12,24,48."),
    click.option(
        "--from",
        "source",
        metavar="PATH",
        help="Read records from parquet or JSON files, not from the cluster: columns key, partition, size "
        "[offset, timestamp, topic].",
    ),
    click.option(
        "--partitions",
        type=click.IntRange(1, _MAX_PARTITIONS),
        metavar="N",
        help="With --from: the partition count of the topic.  [default: as declared, else as found in the "
        "records]",
    ),
    click.option("--show-keys", is_flag=True, help="Show keys in the report. They may be personal data."),
    format_option("skew", "text for people, json for programs (schemas/skew.schema.json)."),
    click.option(
        "-o", "--out", type=_FILE, metavar="FILE", help="Write the report to this file instead of stdout."
    ),
    verbose_option,
    click.option("--json", "json_file", type=_FILE, metavar="FILE", help="Also write the report as JSON."),
    click.option(
        "--markdown", "markdown_file", type=_FILE, metavar="FILE", help="Also write the report as Markdown."
    ),
    click.option(
        "--html", "html_file", type=_FILE, metavar="FILE", help="Also write the report as an HTML page."
    ),
    click.option(
        "--history",
        metavar="PATH",
        help="Keep the report in this folder, and show the trend in HTML pages. If the path has metrics that "
        "--metrics wrote, only show their trend. With --arrivals, keep the figures as metrics, and show the "
        "ratio before.",
    ),
    click.option(
        "--metrics",
        metavar="PATH",
        help="Append the metrics as rows to a table at this path, as Spark takes it; with iceberg, to the "
        "table of this name.",
    ),
    click.option(
        "--metrics-format", type=click.Choice(FORMATS), help="The format of that table.  [default: parquet]"
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
    artefacts = {"json": given.json_file, "markdown": given.markdown_file, "html": given.html_file}
    written = {form: path for form, path in artefacts.items() if path is not None}
    locations = [*written.values(), *([given.out] if given.out else [])]
    if len({location.absolute() for location in locations}) < len(locations):
        raise UsageError(
            "two reports cannot be written to the same file", hint="use a different file for each"
        )
    past = None if given.history is None else _find_metrics_table(given.history, given)
    return SkewOptions(
        _RECORDS if given.records is None else given.records,
        given.precision,
        None if given.since is None else _parse_since(given.since),
        given.full,
        secrets.randbelow(2**31) if given.seed is None else given.seed,
        () if given.what_if is None else _parse_what_if(given.what_if),
        given.source,
        given.partitions,
        given.show_keys,
        given.output_format,
        given.out,
        given.verbose,
        written,
        None if past is not None or given.history is None else Path(given.history),
        None if given.metrics is None else _build_table(given.metrics, given),
        past,
        given.master,
        given.remote,
        dict(map(_parse_spark_setting, given.spark_conf)),
        given.arrivals,
        given.read_all,
        None if given.watch is None else _parse_watch(given.watch),
    )


def _check_together(given: GivenOptions, topics: Sequence[str]) -> None:
    from_files = given.source is not None
    contradictions = (
        (
            given.full and given.records is not None,
            "--full reads every record and cannot be combined with --records",
        ),
        (
            given.full and given.precision is not None,
            "--full is exact and cannot be combined with --precision",
        ),
        (given.master is not None and given.remote is not None, "--master and --remote cannot be combined"),
        (from_files and given.full, "--from reads whole files and cannot be combined with --full"),
        (
            from_files and given.records is not None,
            "--from reads whole files and cannot be combined with --records",
        ),
        (
            from_files and given.precision is not None,
            "--from reads whole files and cannot be combined with --precision",
        ),
        (
            from_files and given.since is not None,
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
            given.watch is not None and given.since is not None,
            "--watch reads new records and cannot be combined with --since",
        ),
        (from_files and any(map(is_glob, topics)), "--from needs the full name of a topic, not a pattern"),
        (
            given.metrics_format is not None and given.metrics is None and given.history is None,
            "--metrics-format needs --metrics",
        ),
        (
            given.partitions is not None and not from_files,
            "--partitions needs --from; a cluster has its own partition counts",
        ),
    )
    if given.arrivals:
        _check_arrivals(given)
    for wrong, message in contradictions:
        if wrong:
            raise UsageError(message, hint="use only one of them; see `kafkaform skew --help`")


_ARRIVALS_OPTIONS = frozenset(
    {*("arrivals", "since", "output_format", "out", "verbose"), *("history", "metrics", "metrics_format")}
)


def _check_arrivals(given: GivenOptions) -> None:
    """Refuse options about records with `--arrivals`, which reads none."""
    unused = _list_used(given, _ARRIVALS_OPTIONS)
    if given.output_format not in {"text", "json"}:
        unused.append("--format")
    if unused:
        raise UsageError(
            f"--arrivals reads no record and cannot be combined with {unused[0]}",
            hint="it takes --since, --format text or json, --out, --verbose, --history and --metrics",
        )
    locations = [location for location in (given.history, given.metrics) if location is not None]
    if given.metrics_format not in {None, FORMATS[0]} or any(map(URL.match, locations)):
        raise UsageError(
            "--arrivals starts no Spark, and appends metrics to Parquet folders of this machine alone",
            hint="leave --arrivals out, or give a folder without --metrics-format",
        )


def _list_used(given: GivenOptions, beside: Collection[str]) -> list[str]:
    """Return the options that were given, except for some fields of `GivenOptions`."""
    names = [name for name, value in asdict(given).items() if name not in beside and _is_given(value)]
    spelled = (
        {"source": "from", "read_all": "all", "output_format": "format"}.get(name, name) for name in names
    )
    return [f"--{name.removesuffix('_file').replace('_', '-')}" for name in spelled]


def _is_given(value: object) -> bool:
    """Return whether an option differs from its default; `is not False`, as a given 0 equals False."""
    return value is not None and value is not False and value not in ((), "text")


def _build_table(location: str, given: GivenOptions) -> MetricsTable:
    """Build a table of metrics; a local path is made absolute, as Spark runs in another folder."""
    here = given.remote is None and (given.master or "local").startswith("local")
    kind = given.metrics_format or FORMATS[0]
    if here and kind != "iceberg" and not URL.match(location):
        return MetricsTable(str(Path(location).absolute()), kind)
    return MetricsTable(location, kind)


def _find_metrics_table(location: str, given: GivenOptions) -> MetricsTable | None:
    """Return the table of metrics for trends; None if the place is a folder of reports.

    Raises:
        UsageError: The place is a file.
    """
    folder = Path(location)
    if folder.is_file():
        raise UsageError(f"--history {quoted(location)} is a file", hint="give a folder")
    if location == given.metrics or URL.match(location) or any(folder.glob("day=*")):
        return _build_table(location, given)
    by_name = given.metrics_format == "iceberg" and "." in location and "/" not in location
    return _build_table(location, given) if by_name and not folder.exists() else None


def _parse_since(text: str) -> int:
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
