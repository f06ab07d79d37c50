"""Adopting drift: the edits by which manifests declare what the cluster has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.group_state import OFFSETS_PREFIX
from kafkaform.core.model import CONFIG_PREFIX
from kafkaform.inspect.drift import Form

if TYPE_CHECKING:
    from kafkaform.config.manifests.editing import Edit
    from kafkaform.core.model import ResourceRef
    from kafkaform.inspect.drift import Drift, FieldDrift, ResourceDrift


@dataclass(frozen=True, slots=True)
class Adoption:
    """What of a cluster's drift can become the manifests' word.

    Attributes:
        edits: What manifests are to say.
        refused: What they cannot say, or must not: the resource and why.
    """

    edits: tuple[Edit, ...] = ()
    refused: tuple[tuple[ResourceRef, str], ...] = ()


def adoption(drift: Drift) -> Adoption:
    """Sort drift into what manifests can take over, and what somebody has to decide."""
    from kafkaform.config.manifests.editing import Edit  # reports of drift ask only what stands against it

    edits: list[Edit] = []
    refused: list[tuple[ResourceRef, str]] = []
    for drifted in drift.resources:
        if drifted.form is not Form.DIFFERS:
            refused.append((drifted.ref, whole_obstacle(drifted)))
        for one in drifted.fields:
            why = obstacle(one)
            if why is None:
                edits.append(Edit(drifted.ref, one.change.path, one.change.before))
            else:
                refused.append((drifted.ref, why))
    if drift.unmanaged_counts:
        refused += [
            (ref, "no manifest declares it; kafkaform import writes one") for ref in drift.unmanaged or ()
        ]
    refused += [(ref, "it is not visible to this account") for ref in drift.unknown]
    return Adoption(tuple(edits), tuple(refused))


def whole_obstacle(drifted: ResourceDrift) -> str:
    """Why nothing can be adopted of a resource that is missing, or that should not be there."""
    if drifted.form is Form.MISSING:
        return "there is nothing on the cluster to adopt"
    return "its manifest says state: absent, and no more"


def obstacle(drifted: FieldDrift) -> str | None:
    """Why no manifest can say what a field is on the cluster; None if one can."""
    path, live = drifted.change.path, drifted.change.before
    if path.startswith(OFFSETS_PREFIX):
        return f"{path}: what a group has committed is nothing that a manifest says"
    if path == "placement":
        return (
            f"{path}: write the live replicas, which kafkaform plan --verbose shows, by hand, or leave them"
        )
    if not path.startswith(CONFIG_PREFIX) and not isinstance(live, int):
        return f"{path}: it is {live} by now, from one partition to the next, and a manifest says one number"
    return None
