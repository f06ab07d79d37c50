"""The command line of the spark-submit entry."""

from __future__ import annotations

import argparse
from typing import NoReturn

from spark_validation.job import RECORDS, JobSettings

WRONG_USAGE = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage()
        self.exit(WRONG_USAGE, f"error: {message}\n")


def parser() -> argparse.ArgumentParser:
    """What the entry understands."""
    made = _Parser(prog="spark_validation", description="How the keys of topics fall on their partitions.")
    add = made.add_argument
    add("--bootstrap-server", metavar="HOST:PORT", help="brokers; also from the command config")
    add("--command-config", metavar="FILE", help="properties of Kafka's Java clients; secrets stay in it")
    add("--topic", action="append", required=True, dest="topics", help="may be given several times")
    add("--output", required=True, metavar="PATH", help="where the report goes: any path that Hadoop knows")
    add("--cluster-name", help="the cluster's name in the report")
    size = made.add_mutually_exclusive_group()
    size.add_argument("--records", type=_count, default=RECORDS, help="of the sample (default: %(default)s)")
    size.add_argument("--full", action="store_true", help="read every record")
    add("--precision", type=_share, help="the wanted half width of a share's interval, such as 0.01")
    add("--since-ms", type=int, help="only records from then on, in milliseconds since 1970")
    add("--seed", type=int, default=0, help="of the windows' places (default: %(default)s)")
    add("--what-if", type=_counts, default=(), metavar="N,N", help="partition counts to place the keys on")
    add("--show-keys", action="store_true", help="report the keys themselves, not only their hashes")
    return made


def job_settings(given: argparse.Namespace) -> JobSettings:
    """The settings that the arguments say."""
    return JobSettings(
        records=given.records,
        seed=given.seed,
        full=given.full,
        precision=given.precision,
        what_if=given.what_if,
        show_keys=given.show_keys,
        since_ms=given.since_ms,
    )


def _count(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return value


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _share(text: str) -> float:
    if not 0.0 < (value := float(text)) < 1.0:
        raise argparse.ArgumentTypeError(f"{text} must be between 0 and 1")
    return value
