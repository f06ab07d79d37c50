"""`kafkaform show`, and saving of plans, signed if there is a key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from kafkaform.cli.options import ClusterSelector, SectionedCommand
from kafkaform.cli.output import plan_format_option, print_text, verbose_option
from kafkaform.cli.output import show as show_report
from kafkaform.core.errors import PlanFileError, UsageError
from kafkaform.core.files import read_file, write_file
from kafkaform.core.model import Status
from kafkaform.core.printable import printable
from kafkaform.core.values import Value
from kafkaform.core.wording import command, counted
from kafkaform.plan.plan_signature import Purpose, SignedFor
from kafkaform.plan.summary import count_held_back

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from kafkaform.core.plans import Plan
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.plan.plan_set import PlanSet

PLAN_SUFFIX = ".json"
"""The suffix of saved plans, by which apply distinguishes them from manifests."""

plan_file_type = click.Path(path_type=Path, dir_okay=False)


@click.command(cls=SectionedCommand)
@click.argument("file", type=plan_file_type, metavar="PLAN.json")
@click.option(
    "--verify-key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Refuse plans that are not signed with a key in this file (PEM).",
)
@plan_format_option
@verbose_option
def show(file: Path, verify_key: Path | None, output_format: str, verbose: bool) -> int:
    """Show a saved plan. Needs no cluster."""
    saved, made = read_plan_file(file)
    if verify_key is not None:
        from kafkaform.plan.plan_signature import read_public_keys, require_signed

        require_signed(made.signature, read_public_keys(verify_key), str(file))
    if output_format == "text":
        from kafkaform.report.plan import render_provenance, render_signature

        print_text(render_provenance(made))
        print_text(render_signature(made, verified=verify_key is not None))
    show_report("plan", output_format, saved, header=made, verbose=verbose)
    return 0


def read_plan_file(file: Path, check: Callable[[bytes, str], None] | None = None) -> tuple[Plan, PlanHeader]:
    """Read a saved plan; `check` gets the content and the name of the file. Raises PlanFileError."""
    from kafkaform.plan.plan_file import plan_from_json

    content = read_plan_content(file)
    if check is not None:
        check(content, str(file))
    return plan_from_json(_decode(content, file), str(file))


def read_plan_set(file: Path) -> PlanSet:
    """Read the plans of several clusters as a set; raises PlanFileError."""
    from kafkaform.plan.plan_set import plan_set_from_json

    return plan_set_from_json(_decode(read_plan_content(file), file), str(file))


def read_plan_content(file: Path) -> bytes:
    """Read the file of a plan; raises PlanFileError."""
    try:
        return read_file(file)
    except OSError as error:
        raise PlanFileError(
            f"{file}: {error.strerror}", hint="make one with `kafkaform plan --out FILE`"
        ) from error


def _decode(content: bytes, file: Path) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PlanFileError(
            f"{printable(str(file))}: not a valid plan: not UTF-8",
            hint="make one with `kafkaform plan --out FILE`",
        ) from error


out_option = click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also save the plan to this file (*.json), for apply and show.",
)
sign_key_option = click.option(
    "--sign-key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Sign the saved plan with this Ed25519 key (PEM). KAFKAFORM_SIGN_KEY can hold the key itself.",
)

sign_for_option = click.option(
    "--sign-for",
    type=click.Choice([purpose.value for purpose in Purpose]),
    help="For comparison by apply --reviewed, or for applying the plan itself after its commit is "
    "merged.  [default: review]",
)


class Saving(Value):
    """The file of a saved plan, and its key and purpose; None where it is not saved or signed."""

    out: Path | None = None
    key: Ed25519PrivateKey | None = None
    purpose: Purpose = Purpose.REVIEW

    @property
    def signed_for(self) -> Purpose | None:
        """The purpose of the signature; None without one."""
        return None if self.key is None else self.purpose

    @classmethod
    def prepare(cls, out: Path | None, key_file: Path | None, purpose: Purpose) -> Self:
        """Check the file name and read the key, before anything else is done.

        Raises:
            UsageError: The name has another suffix, or there is a key but no file.
            KafkaformError: The key cannot be used.
        """
        if out is None:
            if key_file is not None:
                raise UsageError("--sign-key needs a saved plan", hint="also use --out FILE")
            return cls()
        if out.suffix != PLAN_SUFFIX:
            raise UsageError(f"--out {out}: the name of a saved plan ends in {PLAN_SUFFIX}")
        from kafkaform.plan.plan_signature import read_private_key

        return cls(out, read_private_key(key_file, os.environ), purpose)

    def save(self, plan: Plan, about: PlanHeader, file: Path | None = None) -> str | None:
        """Write the plan to `file`, or else to `out`; return the digest of the file, None without one."""
        file = file or self.out
        if file is None:
            return None
        from kafkaform.plan.plan_file import plan_to_json
        from kafkaform.plan.plan_set import compute_file_digest

        text = self._sign(plan_to_json(plan, about), about.signed_for)
        write_file(file, text)
        return compute_file_digest(text.encode())

    def save_set(self, digests: Mapping[str, str], signed_for: SignedFor | None) -> None:
        """Write the set of the saved plans to `out`, from the digest of each cluster's file."""
        if self.out is None or not digests:
            return
        from kafkaform.plan.plan_set import format_plan_set

        write_file(self.out, self._sign(format_plan_set(digests), signed_for))

    def _sign(self, text: str, signed_for: SignedFor | None) -> str:
        if self.key is None:
            return text
        from kafkaform.plan.plan_file import sign

        # After the conversion: the signature covers the document as it is written into the file.
        return sign(text, self.key, signed_for or SignedFor(self.purpose))

    def tell(self, plan: Plan, where: ClusterSelector, *consent: str) -> None:
        """Print on stderr the command that applies the plan, with the options for the same cluster.

        Args:
            where: The options and variables that choose the cluster.
            consent: Options with the consent that the plan needs.
        """
        given: dict[str, object] = {
            "--config": where.config_file,
            "--bootstrap-server": where.bootstrap_server,
            "--command-config": where.command_config,
        }
        if where.bootstrap_server is not None:  # otherwise the plan contains the cluster's name
            given["--cluster"] = where.cluster_name
        options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        if self.signed_for is Purpose.REVIEW:
            apply = command("apply", options=["--reviewed", str(self.out), *options, *consent])
            effect = "compares with this plan"
        else:
            applied = {Status.PLANNED, Status.NEEDS_CONSENT} if consent else {Status.PLANNED}
            ready = [change for change in plan.changes if change.status in applied]
            reasons = ", ".join(count_held_back(plan))
            if not plan.changes:
                click.echo(printable(f"saved to {self.out}: it has nothing to apply"), err=True)
                return
            if not ready:
                text = f"saved to {self.out}, but an apply of it changes nothing: {reasons}"
                click.echo(printable(text), err=True)
                return
            apply = command("apply", str(self.out), options=[*options, *consent])
            effect = "applies exactly this plan"
            if len(ready) < len(plan.changes):
                total = counted(len(plan.changes), "change")
                effect = f"applies {len(ready):,} of {total}: {reasons}"
        click.echo(f"saved: {printable(apply)} {effect}", err=True)
