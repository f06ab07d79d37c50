"""Verification of saved plans: options for their signature, age and commit, and for reviewed plans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import option_group, parse_milliseconds
from kafkaform.cli.output import tell
from kafkaform.core.errors import PlanFileError, UsageError
from kafkaform.core.printable import printable
from kafkaform.core.values import Value
from kafkaform.plan.plan_signature import Purpose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.cli.session import Session
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.model import Desired
    from kafkaform.core.plans import Plan
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.plan.plan_set import PlanSet
    from kafkaform.vcs.repository import Repository

_FILE = click.Path(path_type=Path, dir_okay=False)


class TrustPolicy(Value):
    """The requirements for a saved plan, in addition to the cluster's settings.

    Attributes:
        max_age: The maximum age, in milliseconds.
        require_commit: Whether it must be from the commit that is checked out.
        verify_key: The file of keys, one of which must have signed it.
        reviewed: The reviewed plan that a new one must match.
        again: Whether changes are repeated that an earlier apply of the same plan made.
    """

    max_age: int | None = None
    require_commit: bool = False
    verify_key: Path | None = None
    reviewed: Path | None = None
    again: bool = False

    def check(self, made: PlanHeader, file: Path, session: Session, target: ClusterSettings) -> None:
        """Refuse a saved plan that does not meet the requirements; raises PlanFileError."""
        from kafkaform.plan.plan_signature import read_public_keys
        from kafkaform.plan.plan_trust import Checkout, TrustRequirements, check_trust

        key = self.verify_key or target.verify_key
        # A reviewed plan is only compared; a plan that is applied as it is must be signed for that.
        is_applied = self.reviewed is None
        checkout = None
        if self.require_commit:
            from kafkaform.vcs.repository import Repository

            paths = list(session.settings.manifests)
            if session.settings.file is not None:
                paths.append(Path(session.settings.file))
            checkout = Checkout.read(Repository.find(Path.cwd()), paths)
        age = target.max_plan_age if self.max_age is None else self.max_age
        terms = TrustRequirements(
            read_public_keys(key) if key is not None else None,
            self._purposes,
            # For a plan that is applied as it is, the commit must be merged in this repository: the ref in
            # the plan is only a claim.
            _find_repository() if key is not None and is_applied else None,
            timedelta(milliseconds=age) if age is not None else None,
            checkout,
        )
        check_trust(made, terms, now=datetime.now(UTC), file=str(file))
        if key is not None and is_applied and terms.repository is None:
            tell("the commit of the plan was not compared, because this folder is not in a Git repository")

    def check_set(self, file: Path, clusters: Mapping[str, ClusterSettings]) -> PlanSet:
        """Read the plans of several clusters as a set, which has exactly these files, signed if need be.

        Raises:
            PlanFileError: A cluster has no plan, a plan is missing or another one, or the signature is not
                that which a cluster requires.
        """
        from kafkaform.cli.fleet import plan_path
        from kafkaform.cli.show import read_plan_content, read_plan_set
        from kafkaform.plan.plan_signature import read_public_keys

        plan_set = read_plan_set(file)
        for cluster in clusters.values():
            if (key := self.verify_key or cluster.verify_key) is not None:
                plan_set.require_signed(read_public_keys(key), self._purposes)
        plan_set.require_clusters(clusters)
        for name in clusters:
            path = plan_path(file, name)
            plan_set.require_plan(name, read_plan_content(path), str(path))
        return plan_set

    @property
    def _purposes(self) -> frozenset[Purpose]:
        # A plan signed for apply is trusted more than one for review, so it may also be compared.
        return frozenset({Purpose.APPLY} if self.reviewed is None else Purpose)

    def check_options(self, saved: Path | None, target: ClusterSettings) -> None:
        """Refuse contradicting options, and an apply without the signed plan that the cluster requires."""
        if saved is not None and self.reviewed is not None:
            raise UsageError(
                "--reviewed compares a new plan with a reviewed one",
                hint="use it with manifests; a saved plan is applied as it is: `kafkaform apply PLAN.json`",
            )
        if saved is None and self.require_commit:
            raise UsageError("--require-commit needs a saved plan", hint="give PLAN.json")
        if saved is None and self.reviewed is None and self.again:
            raise UsageError("--again needs a saved plan", hint="give PLAN.json, or --reviewed PLAN.json")
        # With --reviewed, the signed plan is the one that is compared: verifyKey is satisfied by that.
        if saved is not None or self.reviewed is not None:
            return
        if self.max_age is not None or self.verify_key is not None:
            raise UsageError(
                "--max-age and --verify-key need a saved plan", hint="use PLAN.json, or --reviewed PLAN.json"
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
        help="Apply a saved plan only if a key in this file (PEM) signed it for apply, or with --reviewed, "
        "for review.  [default: the cluster's verifyKey]",
    ),
    click.option(
        "--max-age",
        callback=parse_milliseconds,
        metavar="DURATION",
        help="The maximum age of a saved plan.  [default: the cluster's maxPlanAge]",
    ),
    click.option(
        "--require-commit",
        is_flag=True,
        help="Apply a saved plan only if it is of the commit that is checked out.",
    ),
    click.option(
        "--again",
        is_flag=True,
        help="Apply a saved plan again, even if its changes were applied before and then undone.",
    ),
)


def _find_repository() -> Repository | None:
    """Return the Git repository of this folder; None if there is none."""
    from kafkaform.vcs.repository import Repository

    here = Path.cwd()
    # .git is checked first: if Git cannot read it, or does not trust it, the plan must be refused.
    if not any((folder / ".git").exists() for folder in (here, *here.parents)):
        return None
    return Repository.find(here)


trust_options = option_group(TrustPolicy, "trust", *_OPTIONS)
"""Adds the options of a `TrustPolicy` to a command."""


def enter_plan_environment(session: Session, header: PlanHeader) -> Session:
    """Return a copy for the environment of a saved plan; raises PlanFileError if the cluster has another."""
    again = f"make a new plan for {session.require_cluster().name}"
    return session.enter_environment(header.environment, "the plan", PlanFileError, instead=again)


_MAX_TARGETS = 5
"""The most resources that a hint names: a longer command is not read before it is pasted."""


def require_same(
    reviewed: tuple[Plan, PlanHeader],
    now: tuple[Plan, PlanHeader],
    desired: Sequence[Desired],
    plan_again: str,
    apply_again: Callable[[Sequence[str]], str] | None,
) -> None:
    """Refuse a plan that differs from the reviewed one.

    Args:
        now: The plan made now.
        desired: The declared resources that it was made from.
        plan_again: The command that makes a new plan to review.
        apply_again: Returns the command of this apply with further targets; None where it is not run by hand.

    Raises:
        PlanFileError: The plans differ; every difference is printed first.
    """
    from kafkaform.plan.reviewed import compare

    comparison = compare(reviewed, now, desired)
    for note in comparison.notes:
        tell(f"since the review: {note}")
    # All differences are printed before the error, which has one line only.
    for difference in comparison.differences:
        tell(f"not as reviewed: {difference}")
    if not comparison.differences:
        return
    hint = f"make a new plan and review it: {printable(plan_again)}"
    if comparison.beyond and apply_again is not None:
        refs = [change.ref for change in reviewed[0].changes]
        if comparison.separable and len(refs) <= _MAX_TARGETS:
            only = printable(apply_again([f"{ref.kind}/{escape(ref.name)}" for ref in refs]))
            hint = f"apply only what was reviewed: {only}; or {hint}"
        else:
            retry = printable(apply_again(()))
            hint = (
                "was another branch merged that is not applied yet? Apply its own plan first, then this one "
                f"again: {retry}; or {hint}"
            )
    raise PlanFileError("the plan is not the one that was reviewed; nothing was applied", hint=hint)
