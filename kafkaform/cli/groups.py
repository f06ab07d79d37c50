"""A group of commands that suggests one for a name that it does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkaform.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


class SuggestingGroup(click.Group):
    """A group that suggests the nearest command for an unknown name.

    Attributes:
        other_names: Commands by other words for them, which no similarity finds.
    """

    other_names: Mapping[str, str] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first argument; raises UsageError with a suggestion."""
        names, name = self.list_commands(ctx), args[0]
        if name not in names and not ctx.resilient_parsing and not name.startswith("-"):
            from kafkaform.core.wording import nearest

            near = nearest(name, [*names, *self.other_names])
            near = self.other_names.get(near or "", near)
            called = f"{ctx.command_path} "
            hint = f"did you mean `{called}{near}`?" if near else f"`{called}--help` lists them"
            raise UsageError(f"there is no command {(called + name).removeprefix('kafkaform ')!r}", hint=hint)
        return super().resolve_command(ctx, args)
