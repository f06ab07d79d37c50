"""The checks before a saved plan is applied: its signature and purpose, version, age and commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkaform import __version__
from kafkaform.core.errors import PlanFileError, RepositoryError
from kafkaform.core.printable import clipped, printable
from kafkaform.core.values import Value
from kafkaform.core.wording import DIRTY, listed
from kafkaform.plan.plan_header import PlanHeader, is_compatible, require_fresh
from kafkaform.plan.plan_signature import Purpose, require_purpose, require_signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_AGAIN = "make a new plan"


class History(Protocol):
    """The repository of the manifests; its methods raise RepositoryError."""

    def read_head(self) -> str:
        """Return the commit that is checked out."""

    def find_changes(self, commit: str, paths: Iterable[Path]) -> Sequence[str]:
        """Find the files at these paths that differ from the commit."""

    def find_merge_base(self, commit: str) -> str | None:
        """Find the latest common ancestor of this commit and HEAD."""


class Checkout(Value):
    """The commit that is checked out, and the files that differ from it."""

    commit: str
    changed: tuple[str, ...] = ()

    @classmethod
    def read(cls, repository: History, paths: Iterable[Path]) -> Checkout:
        """Read the state of the manifests and the configuration at these paths; raises RepositoryError."""
        commit = repository.read_head()
        return cls(commit, tuple(repository.find_changes(commit, paths)))


class TrustRequirements(Value):
    """The requirements for a saved plan.

    Attributes:
        keys: One of these keys must have signed it; None: it needs no signature.
        purposes: The accepted purposes of a required signature.
        repository: The commit of a plan that must be signed must be an ancestor of HEAD here, or HEAD; None:
            any commit.
        max_age: The maximum age; None: any age.
        checkout: The commit that it must have been made from; None: any commit.
    """

    keys: tuple[Ed25519PublicKey, ...] | None = None
    purposes: frozenset[Purpose] = frozenset({Purpose.APPLY})
    repository: History | None = None
    max_age: timedelta | None = None
    checkout: Checkout | None = None


def check_trust(header: PlanHeader, requirements: TrustRequirements, *, now: datetime, file: str) -> None:
    """Raise an error if a saved plan does not meet the requirements, or its version is not compatible.

    Args:
        header: The header of the plan.
        now: The time, with its zone.
        file: The plan's file, for messages.

    Raises:
        PlanFileError: The first requirement that is not met; the signature is checked first.
    """
    # The signature first: until it is verified, everything else in the file may be forged.
    if requirements.keys is not None:
        require_signed(header.signature, requirements.keys, file)
    where = printable(file)
    if requirements.keys is not None:
        require_purpose(header.signed_for, requirements.purposes, where)
    _require_version(header, where)
    if requirements.max_age is not None:
        require_fresh(
            "the plan",
            header.created_at,
            requirements.max_age,
            now,
            where=where,
            again=_AGAIN,
            error=PlanFileError,
        )
    if requirements.checkout is not None:
        _require_commit(header, requirements.checkout, where)
    elif requirements.keys is not None and requirements.repository is not None:
        _require_merged(header, requirements.repository, where)


def _require_merged(header: PlanHeader, repository: History, where: str) -> None:
    """Require that the commit is merged here: the ref in a plan is only a claim of its signer."""
    commit = _require_recorded_commit(header, where)
    try:
        # A commit is its own merge base with HEAD if and only if it is an ancestor of HEAD, or HEAD.
        merged = repository.find_merge_base(commit) == commit
    except RepositoryError as error:
        raise PlanFileError(f"{where}: {error.message}", hint=error.hint) from error
    if not merged:
        raise PlanFileError(
            f"{where}: the plan was made from commit {clipped(commit[:12], 40)}, which is not merged into "
            f"the checked-out commit {repository.read_head()[:12]}",
            hint=f"merge it first, or {_AGAIN} from the merged manifests",
        )


def _require_version(header: PlanHeader, where: str) -> None:
    if not is_compatible(header.tool_version):
        version = clipped(header.tool_version, 40)
        raise PlanFileError(
            f"{where}: the plan was made by kafkaform {version}, and this is {__version__}, which may "
            "read it differently",
            hint=f"apply it with the version that made it, or {_AGAIN}",
        )


def _require_recorded_commit(header: PlanHeader, where: str) -> str:
    """Return the commit that a plan was made from; raise a PlanFileError if there is none."""
    if header.commit is None:
        raise PlanFileError(
            f"{where}: the plan does not contain the commit that it was made from",
            hint="create it in the Git repository of the manifests, with all manifests committed",
        )
    if header.commit.endswith(DIRTY):
        base = clipped(header.commit.removesuffix(DIRTY)[:12], 40)
        raise PlanFileError(
            f"{where}: the plan was made from files that differ from commit {base}",
            hint=f"commit them, and {_AGAIN}",
        )
    return header.commit


def _require_commit(header: PlanHeader, checkout: Checkout, where: str) -> None:
    commit, here = _require_recorded_commit(header, where), checkout.commit[:12]
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
