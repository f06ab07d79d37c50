"""Whether a saved plan may be applied: who signed it and what for, what made it, its age and its commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafkaform import __version__
from kafkaform.core.errors import PlanFileError, RepositoryError
from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import DIRTY, listed
from kafkaform.plan.plan_header import is_compatible, require_fresh
from kafkaform.plan.plan_signature import Purpose, require_signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from kafkaform.plan.plan_header import PlanHeader

_AGAIN = "make a new plan"


class History(Protocol):
    """The repository of the manifests; its methods raise RepositoryError."""

    def head(self) -> str:
        """The commit that is checked out."""

    def changed(self, commit: str, paths: Iterable[Path]) -> Sequence[str]:
        """The files at these paths that are not as the commit has them."""

    def merge_base(self, commit: str) -> str | None:
        """The latest commit that this one and HEAD have in common."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """The commit that is checked out, and the files that are not as it has them."""

    commit: str
    changed: tuple[str, ...] = ()

    @classmethod
    def of(cls, repository: History, paths: Iterable[Path]) -> Checkout:
        """Look at the manifests and the configuration at these paths; raises RepositoryError."""
        commit = repository.head()
        return cls(commit, tuple(repository.changed(commit, paths)))


@dataclass(frozen=True, slots=True)
class Terms:
    """What a saved plan must meet.

    Attributes:
        keys: The keys of which one must have signed it; None: it needs no signature.
        purposes: What it may be signed for, where it must be signed.
        repository: Where its commit must be merged, where it must be signed: HEAD here comes from it, or is
            it. None: nowhere.
        max_age: How old it may be; None: any age.
        checkout: What it must have been made from; None: from anything.
    """

    keys: tuple[Ed25519PublicKey, ...] | None = None
    purposes: frozenset[Purpose] = frozenset({Purpose.APPLY})
    repository: History | None = None
    max_age: timedelta | None = None
    checkout: Checkout | None = None


def check_trust(made: PlanHeader, terms: Terms, *, now: datetime, file: str) -> None:
    """Refuse a saved plan that does not meet the terms, or that another version of kafkaform made.

    Args:
        made: What the plan says about its making.
        terms: What it must meet.
        now: The time, with its zone.
        file: The plan's file, for messages.

    Raises:
        PlanFileError: The first thing that is wrong; the signature comes before all that it covers.
    """
    if terms.keys is not None:
        require_signed(made.signature, terms.keys, file)
    where = printable(file)
    if terms.keys is not None:
        _require_purpose(made, terms.purposes, where)
    _require_version(made, where)
    if terms.max_age is not None:
        require_fresh(
            "the plan",
            made.created_at,
            terms.max_age,
            now,
            where=where,
            again=_AGAIN,
            error=PlanFileError,
        )
    if terms.checkout is not None:
        _require_commit(made, terms.checkout, where)
    elif terms.keys is not None and terms.repository is not None:
        _require_merged(made, terms.repository, where)


def _require_purpose(made: PlanHeader, purposes: frozenset[Purpose], where: str) -> None:
    if made.signed_for is None:
        raise PlanFileError(
            f"{where}: the plan is signed, but not for a stated purpose",
            hint="sign it again: kafkaform plan --out FILE --sign-key KEY --sign-for apply (or review)",
        )
    if made.signed_for.purpose not in purposes:
        raise PlanFileError(
            f"{where}: the plan is signed for {made.signed_for.purpose}, not for being applied as it is",
            hint="apply what was merged: kafkaform apply --reviewed FILE; or, where its commit is merged, "
            "make a plan with --sign-for apply",
        )


def _require_merged(made: PlanHeader, repository: History, where: str) -> None:
    """Compare the commit with what is known here: a ref in the plan is only its signer's word."""
    commit = _committed(made, where)
    try:
        merged = repository.merge_base(commit) == commit
    except RepositoryError as error:
        raise PlanFileError(f"{where}: {error.message}", hint=error.hint) from error
    if not merged:
        raise PlanFileError(
            f"{where}: the plan was made from commit {clipped(commit[:12], 40)}, which is not part of "
            f"{repository.head()[:12]}, which is checked out",
            hint=f"merge it first, or {_AGAIN} from what is merged",
        )


def _require_version(made: PlanHeader, where: str) -> None:
    if not is_compatible(made.tool_version):
        version = clipped(made.tool_version, 40)
        raise PlanFileError(
            f"{where}: the plan was made by kafkaform {version}, and this is {__version__}, which may "
            "understand it otherwise",
            hint=f"apply it with the version that made it, or {_AGAIN}",
        )


def _committed(made: PlanHeader, where: str) -> str:
    """The commit that a plan was made from."""
    if made.commit is None:
        raise PlanFileError(
            f"{where}: the plan does not contain the commit that it was made from",
            hint="create it in the Git repository of the manifests, with all manifests committed",
        )
    if made.commit.endswith(DIRTY):
        base = clipped(made.commit.removesuffix(DIRTY)[:12], 40)
        raise PlanFileError(
            f"{where}: the plan was made from files that differ from commit {base}",
            hint=f"commit them, and {_AGAIN}",
        )
    return made.commit


def _require_commit(made: PlanHeader, checkout: Checkout, where: str) -> None:
    commit, here = _committed(made, where), checkout.commit[:12]
    if commit != checkout.commit:
        raise PlanFileError(
            f"{where}: the plan was made from commit {clipped(commit[:12], 40)}, but {here} is checked out",
            hint=f"check that commit out, or {_AGAIN} from this one",
        )
    if checkout.changed:
        files = listed([clipped(name, 100) for name in checkout.changed])
        raise PlanFileError(
            f"{where}: these files differ from commit {here}: {files}",
            hint=f"git stash them, or commit them and {_AGAIN}",
        )
