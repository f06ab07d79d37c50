"""The options of replica moves; the cluster's settings are their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkaform.cli.options import option_group, parse_milliseconds
from kafkaform.core.errors import UsageError
from kafkaform.core.units import parse_size
from kafkaform.core.values import Value, replace
from kafkaform.resources.replicas.moves import MAX_BATCH_PARTITIONS, WhenBusy, parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.resources.replicas.moves import MoveOptions

T = TypeVar("T")


class Moving(Value):
    """The options of replica moves; None for the cluster's setting.

    Attributes:
        throttle: A rate in the format of `kafkaform.resources.replicas.moves.parse_rate`.
        batch_partitions: The number of partitions per batch.
        batch_bytes: The size of a batch.
        timeout: The maximum duration of all moves, in milliseconds.
        when_busy: The reaction to reassignments by somebody else.
    """

    throttle: str | None = None
    batch_partitions: int | None = None
    batch_bytes: str | None = None
    timeout: int | None = None
    when_busy: str | None = None

    def override(self, settings: MoveOptions) -> MoveOptions:
        """Return the settings, overridden by the given options.

        Raises:
            UsageError: A value is not valid.
        """
        overrides: dict[str, Any] = {}
        if self.throttle is not None:
            overrides["throttle"] = _parse_option("--throttle", parse_rate, self.throttle)
        if self.batch_bytes is not None:
            overrides["batch_bytes"] = _parse_option("--batch-bytes", parse_size, self.batch_bytes)
        if self.batch_partitions is not None:
            overrides["batch_partitions"] = self.batch_partitions
        if self.timeout is not None:
            overrides["timeout_s"] = self.timeout / 1000
        if self.when_busy is not None:
            overrides["when_busy"] = WhenBusy(self.when_busy)
        return replace(settings, **overrides)


def _parse_option(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


throttle_option = click.option(
    "--throttle",
    metavar="RATE",
    help="The bytes per second that each broker may send, and receive, for replica moves: 50MB, or none for "
    "no limit.  [default: from kafkaform.yaml, or 50MB]",
)

_OPTIONS = (
    throttle_option,
    click.option(
        "--batch-partitions",
        type=click.IntRange(1, MAX_BATCH_PARTITIONS),
        metavar="N",
        help="How many partitions to move at a time.  [default: from kafkaform.yaml, or 50]",
    ),
    click.option(
        "--batch-bytes",
        metavar="SIZE",
        help="How many bytes to copy at a time. A larger partition is moved alone.  [default: from "
        "kafkaform.yaml, or 50GiB]",
    ),
    click.option(
        "--timeout",
        callback=parse_milliseconds,
        metavar="DURATION",
        help="How long replica moves may take. Moves that are not finished by then are cancelled.  "
        "[default: no limit]",
    ),
    click.option(
        "--when-busy",
        type=click.Choice([choice.value for choice in WhenBusy]),
        help="What to do while a reassignment that kafkaform did not start is running. It is never changed.  "
        "[default: from kafkaform.yaml, or refuse]",
    ),
)


moving_options = option_group(Moving, "moving", *_OPTIONS)
"""Adds the options of a `Moving` to a command."""
