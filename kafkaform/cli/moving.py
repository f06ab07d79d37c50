"""The options of replica moves; the cluster's settings are their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import option_group, parse_milliseconds
from kafkaform.core.errors import UsageError
from kafkaform.core.values import Value, replace
from kafkaform.resources.replicas.moves import parse_rate

if TYPE_CHECKING:
    from kafkaform.resources.replicas.moves import MoveOptions


class Moving(Value):
    """The options of replica moves; None for the cluster's setting.

    Attributes:
        throttle: A rate in the format of `kafkaform.resources.replicas.moves.parse_rate`.
        timeout: The maximum duration of all moves, in milliseconds.
    """

    throttle: str | None = None
    timeout: int | None = None

    def override(self, settings: MoveOptions) -> MoveOptions:
        """Return the settings, overridden by the given options.

        Raises:
            UsageError: A value is not valid.
        """
        try:
            throttle = settings.throttle if self.throttle is None else parse_rate(self.throttle)
        except ValueError as error:
            raise UsageError(f"--throttle: {error}") from error
        timeout_s = settings.timeout_s if self.timeout is None else self.timeout / 1000
        return replace(settings, throttle=throttle, timeout_s=timeout_s)


throttle_option = click.option(
    "--throttle",
    metavar="RATE",
    help="The bytes per second that each broker may send, and receive, for replica moves: 50MB, or none for "
    "no limit.  [default: from kafkaform.yaml, or 50MB]",
)

_OPTIONS = (
    throttle_option,
    click.option(
        "--timeout",
        callback=parse_milliseconds,
        metavar="DURATION",
        help="How long replica moves may take. Moves that are not finished by then are cancelled.  "
        "[default: no limit]",
    ),
)


moving_options = option_group(Moving, "moving", *_OPTIONS)
"""Adds the options of a `Moving` to a command."""
