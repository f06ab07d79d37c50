"""Which saved plans are applied: options and wiring of their signature, age and commit, and of the review."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import bundled, in_milliseconds
from kafkaform.cli.output import tell
from kafkaform.core.errors import PlanFileError, UsageError
from kafkaform.core.printable import printable
from kafkaform.core.wording import command
from kafkaform.plan.plan_signature import Purpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cli.session import Session
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.model import Desired, Plan
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.vcs.repository import Repository

_FILE = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, slots=True)
class Trust:
    """What the command line asks of a saved plan, beyond what the cluster's settings ask.

    Attributes:
        max_age: How old it may be, in milliseconds.
        require_commit: Whether it must be of the commit that is checked out.
        verify_key: The keys of which one must have signed it.
        reviewed: The plan that was reviewed, to compare one made now with.
        again: Whether changes are made once more that an apply of the same plan made before.
    """

    max_age: int | None = None
    require_commit: bool = False
    verify_key: Path | None = None
    reviewed: Path | None = None
    again: bool = False

    def check(self, made: PlanHeader, file: Path, session: Session, target: ClusterSettings) -> None:
        """Refuse a saved plan that is not to be trusted here; raises PlanFileError with what is wrong."""
        from kafkaform.plan.plan_signature import read_public_keys
        from kafkaform.plan.plan_trust import Checkout, Terms, check_trust

        key = self.verify_key or target.verify_key
        # A plan to compare with changes nothing; one that is carried out as it is must be signed for that.
        as_it_is = self.reviewed is None
        checkout = None
        if self.require_commit:
            from kafkaform.vcs.repository import Repository

            paths = [*session.settings.manifests, *filter(None, [_file(session)])]
            checkout = Checkout.of(Repository.at(Path.cwd()), paths)
        age = target.max_plan_age if self.max_age is None else self.max_age
        terms = Terms(
            read_public_keys(key) if key is not None else None,
            frozenset({Purpose.APPLY} if as_it_is else Purpose),
            _here() if key is not None and as_it_is else None,
            timedelta(milliseconds=age) if age is not None else None,
            checkout,
        )
        check_trust(made, terms, now=datetime.now(UTC), file=str(file))
        if key is not None and as_it_is and terms.repository is None:
            tell("the commit of the plan was not compared, because this folder is not in a Git repository")

    def check_options(self, saved: Path | None, target: ClusterSettings) -> None:
        """Refuse options that cannot be meant, and an apply without the plan that the cluster asks for."""
        if saved is not None and self.reviewed is not None:
            raise UsageError(
                "--reviewed compares a new plan with a reviewed one",
                hint="use it with manifests; a saved plan is applied as it is: kafkaform apply PLAN.json",
            )
        if saved is None and self.require_commit:
            raise UsageError("--require-commit needs a saved plan", hint="give PLAN.json")
        if saved is None and self.again:
            raise UsageError("--again needs a saved plan", hint="give PLAN.json")
        if saved is not None or self.reviewed is not None:
            return
        if self.max_age is not None or self.verify_key is not None:
            raise UsageError(
                "--max-age and --verify-key need a saved plan",
                hint="use PLAN.json, or --reviewed PLAN.json",
            )
        if target.verify_key is not None:
            raise PlanFileError(
                f"cluster {target.name} accepts only signed plans (verifyKey in kafkaform.yaml)",
                hint="apply a signed PLAN.json, or use the reviewed one with --reviewed",
            )


_OPTIONS = (
    click.option(
        "--reviewed",
        type=_FILE,
        metavar="PLAN.json",
        help="Plan again from the manifests, and apply only if the result matches this saved plan.",
    ),
    click.option(
        "--verify-key",
        type=_FILE,
        metavar="FILE",
        help="Apply a saved plan only if it is signed for apply (with --reviewed, also for review) with a "
        "key in this file (PEM).  [default: the cluster's verifyKey]",
    ),
    click.option(
        "--max-age",
        callback=in_milliseconds,
        metavar="DURATION",
        help="The maximum age of a saved plan.  [default: the cluster's maxPlanAge]",
    ),
    click.option(
        "--require-commit",
        is_flag=True,
        help="Apply a saved plan only if it was made from the commit that is checked out.",
    ),
    click.option(
        "--again",
        is_flag=True,
        help="Apply a saved plan again, even if its changes were applied before and then undone.",
    ),
)


def _here() -> Repository | None:
    """The Git repository that this folder is in; None if it is in none."""
    from kafkaform.vcs.repository import Repository

    here = Path.cwd()
    # Looked for here: where there is one that Git cannot read, or does not trust, the plan is refused.
    if not any((folder / ".git").exists() for folder in (here, *here.parents)):
        return None
    return Repository.at(here)


trust_options = bundled(Trust, "trust", _OPTIONS)
"""Gives a command the options of a `Trust`."""


def require_same(
    reviewed: tuple[Plan, PlanHeader], now: tuple[Plan, PlanHeader], desired: Sequence[Desired], file: Path
) -> None:
    """Refuse a plan that would do something else than the one that was reviewed.

    Args:
        reviewed: The plan that was reviewed.
        now: One made now.
        desired: The manifests that it was made from.
        file: Where the reviewed plan is.

    Raises:
        PlanFileError: It would; every difference is told before.
    """
    from kafkaform.plan.reviewed import compare

    found = compare(reviewed, now, desired)
    for note in found.notes:
        tell(f"since the review: {note}")
    for difference in found.differences:
        tell(f"not as reviewed: {difference}")
    if found.differences:
        hint = "review a new plan: open a pull request, or run the plan of this one again"
        if found.beyond:
            again = printable(command("apply", options=["--reviewed", str(file)]))
            hint = (
                "was another branch merged that is not applied yet? Apply its own reviewed plan first: "
                f"kafkaform apply OTHER.json, then this one: {again}; or {hint}"
            )
        raise PlanFileError("the plan is not the one that was reviewed; nothing was applied", hint=hint)


def _file(session: Session) -> Path | None:
    return Path(session.settings.file) if session.settings.file is not None else None
