"""Whether a saved plan may be applied: who signed it, what made it, how old it is, and from which commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform import __version__
from kafkaform.compatibility import is_compatible
from kafkaform.errors import PlanFileError
from kafkaform.freshness import require_fresh
from kafkaform.plan_signature import require_signed
from kafkaform.report.printable import clipped, printable
from kafkaform.wording import DIRTY, listed, short_commit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from kafkaform.plan_file import PlanHeader
    from kafkaform.repository import Repository

_AGAIN = "make a new plan"


@dataclass(frozen=True, slots=True)
class Checkout:
    """The commit that is checked out, and the files that are not as it has them."""

    commit: str
    changed: tuple[str, ...] = ()

    @classmethod
    def of(cls, repository: Repository, paths: Iterable[Path]) -> Checkout:
        """Look at the manifests and the configuration at these paths; raises RepositoryError."""
        commit = repository.head()
        return cls(commit, tuple(repository.changed(commit, paths)))


@dataclass(frozen=True, slots=True)
class Terms:
    """What a saved plan must meet.

    Attributes:
        keys: The keys of which one must have signed it; None: it needs no signature.
        max_age: How old it may be; None: any age.
        checkout: What it must have been made from; None: from anything.
    """

    keys: tuple[Ed25519PublicKey, ...] | None = None
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


def _require_version(made: PlanHeader, where: str) -> None:
    if not is_compatible(made.tool_version):
        version = clipped(made.tool_version, 40)
        raise PlanFileError(
            f"{where}: the plan was made by kafkaform {version}, and this is {__version__}, which may "
            "understand it otherwise",
            hint=f"apply it with the version that made it, or {_AGAIN}",
        )


def _require_commit(made: PlanHeader, checkout: Checkout, where: str) -> None:
    here = checkout.commit[:12]
    if made.commit is None:
        raise PlanFileError(
            f"{where}: the plan does not say from which commit it was made",
            hint="make it in the Git repository of the manifests, with all of them committed",
        )
    if made.commit.endswith(DIRTY):
        base = clipped(made.commit.removesuffix(DIRTY)[:12], 40)
        raise PlanFileError(
            f"{where}: the plan was made from files that are not as commit {base} has them",
            hint=f"commit them, and {_AGAIN}",
        )
    if made.commit != checkout.commit:
        raise PlanFileError(
            f"{where}: the plan was made from commit {clipped(short_commit(made.commit), 40)}, "
            f"and {here} is checked out",
            hint=f"check that commit out, or {_AGAIN} from this one",
        )
    if checkout.changed:
        files = listed([clipped(name, 100) for name in checkout.changed])
        raise PlanFileError(
            f"{where}: these files are not as commit {here} has them: {files}",
            hint=f"git stash them, or commit them and {_AGAIN}",
        )
