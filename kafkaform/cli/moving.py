"""The option of replica moves; everything else about them is set for a cluster in kafkaform.yaml."""

from __future__ import annotations

import click

from kafkaform.core.errors import UsageError
from kafkaform.core.values import replace
from kafkaform.resources.replicas.moves import MoveOptions, parse_rate

throttle_option = click.option(
    "--throttle",
    metavar="RATE",
    help="The bytes per second that each broker may send, and receive, for moves: 50MB, or none for no "
    "limit.  [default: from kafkaform.yaml, or 50MB]",
)


def override_throttle(settings: MoveOptions, throttle: str | None) -> MoveOptions:
    """Return the settings of a cluster with a given throttle; raises UsageError if it is not valid."""
    if throttle is None:
        return settings
    try:
        return replace(settings, throttle=parse_rate(throttle))
    except ValueError as error:
        raise UsageError(f"--throttle: {error}") from error
