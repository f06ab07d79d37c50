"""How the signature of a saved plan is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from kafkaform.plan_signature import Signature


def render_signature(signature: Signature | None, *, verified: bool) -> Text:
    """One line on who signed a saved plan, and whether anybody looked."""
    if signature is None:
        return Text("Not signed.", style="dim")
    if verified:
        return Text(f"Signed with the key {signature.key}, and not changed since.", style="dim")
    return Text(f"Says that it is signed with the key {signature.key}; not verified.", style="dim")
