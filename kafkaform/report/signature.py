"""How the signature of a saved plan is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from kafkaform.core.printable import clipped

if TYPE_CHECKING:
    from kafkaform.plan.plan_header import PlanHeader


def render_signature(made: PlanHeader, *, verified: bool) -> Text:
    """One line on who signed a saved plan, what for, and whether anybody looked."""
    if made.signature is None:
        return Text("Not signed.", style="dim")
    purpose = "nothing in particular" if made.signed_for is None else made.signed_for.purpose
    ref = made.signed_for.ref if made.signed_for is not None else None
    told = (
        f"signed for {purpose}{f' (of {clipped(ref, 200)})' if ref else ''} with the key {made.signature.key}"
    )
    if verified:
        return Text(f"{told[0].upper()}{told[1:]}, and not changed since.", style="dim")
    return Text(f"Says that it is {told}; not verified.", style="dim")
