"""The options of how an apply moves replicas; what is not given is as the cluster's settings say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkaform.cli.options import bundled, in_milliseconds
from kafkaform.core.errors import UsageError
from kafkaform.core.moves import MOST_PARTITIONS, WhenBusy, parse_rate
from kafkaform.core.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.core.moves import MoveOptions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moving:
    """What the command line says of moving replicas; None leaves it to the cluster's settings.

    Attributes:
        throttle: A rate as `kafkaform.core.moves.parse_rate` reads it.
        batch_partitions: How many partitions at a time.
        batch_bytes: How many bytes at a time.
        timeout: How long all of it may take, in milliseconds.
        when_busy: What to do about a reassignment that somebody else has started.
    """

    throttle: str | None = None
    batch_partitions: int | None = None
    batch_bytes: str | None = None
    timeout: int | None = None
    when_busy: str | None = None

    def over(self, settings: MoveOptions) -> MoveOptions:
        """The settings, with what the command line says in their place.

        Raises:
            UsageError: A value is none.
        """
        said: dict[str, Any] = {}
        if self.throttle is not None:
            said["throttle"] = _parsed("--throttle", parse_rate, self.throttle)
        if self.batch_bytes is not None:
            said["batch_bytes"] = _parsed("--batch-bytes", parse_size, self.batch_bytes)
        if self.batch_partitions is not None:
            said["batch_partitions"] = self.batch_partitions
        if self.timeout is not None:
            said["timeout_s"] = self.timeout / 1000
        if self.when_busy is not None:
            said["when_busy"] = WhenBusy(self.when_busy)
        return replace(settings, **said)


def _parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


throttle_option = click.option(
    "--throttle",
    metavar="RATE",
    help="The bytes per second that each broker may send, and receive, for replica moves: 50MB, or none for "
    "no limit.  [default: as kafkaform.yaml says, or 50MB]",
)

_OPTIONS = (
    throttle_option,
    click.option(
        "--batch-partitions",
        type=click.IntRange(1, MOST_PARTITIONS),
        metavar="N",
        help="How many partitions to move at a time.  [default: as kafkaform.yaml says, or 50]",
    ),
    click.option(
        "--batch-bytes",
        metavar="SIZE",
        help="How many bytes to copy at a time. A larger partition is moved alone.  [default: as "
        "kafkaform.yaml says, or 50GiB]",
    ),
    click.option(
        "--timeout",
        callback=in_milliseconds,
        metavar="DURATION",
        help="How long replica moves may take. Moves that are not finished by then are cancelled.  "
        "[default: no limit]",
    ),
    click.option(
        "--when-busy",
        type=click.Choice([choice.value for choice in WhenBusy]),
        help="What to do while somebody else is moving replicas. Their moves are never changed.  [default: "
        "as "
        "kafkaform.yaml says, or refuse]",
    ),
)


moving_options = bundled(Moving, "moving", _OPTIONS)
"""Gives a command the options of a `Moving`."""
