"""Rules about controllers and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.units import format_duration
from kafkaform.core.wording import counted, listed
from kafkaform.rules.catalogue import Finding, Scene, Stage, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.health import Quorum, Voter

SILENT_MS = 10_000
"""A voter that has not fetched for so long is down: it fetches several times a second, and takes the leader
for dead after 2 s (controller.quorum.fetch.timeout.ms)."""
BEHIND = 10_000
"""So many records of the metadata log are more than one request writes at most: a voter that far behind does
not keep up."""


@rule("KF301", Severity.ERROR, stage=Stage.HEALTH, waivable=False)
def controllers(scene: Scene) -> Iterator[Finding]:
    """There is no active controller, or voters of the controller quorum are out of sync.

    Without an active controller no topic is created or changed, and no partition gets a new leader when its
    broker stops. A majority of the voters must be in sync to have one, so each voter that is not brings the
    cluster nearer to that. A voter is out of sync when it has not fetched from the active controller for
    10 s, has not fetched at all since that one was elected, or is 10,000 records of the metadata log behind.
    See whether its process runs and can reach the others; bring it back before another one is stopped.
    """
    health = scene.health
    if health is None:
        return
    if health.quorum is None:  # which this account may not see: the brokers still name a controller
        if health.controller is None:
            yield _no_controller()
        return
    if health.quorum.leader is None:
        yield _no_controller()
        return
    out = [(voter, why) for voter in health.quorum.voters if (why := _out_of_sync(voter, health.quorum))]
    if out:
        total = len(health.quorum.voters)
        spare = total - len(out) - (total // 2 + 1)
        reasons = listed([f"{voter.id} {why}" for voter, why in out])
        verb = "is" if len(out) == 1 else "are"
        yield Finding(
            None,
            f"{len(out)} of {counted(total, 'controller voter')} {verb} out of sync ({reasons}): "
            f"{spare if spare > 0 else 'no'} more may fail",
            "see whether it runs and reaches the others, and stop no other controller before it is back",
        )


def _no_controller() -> Finding:
    return Finding(
        None,
        "no active controller answers: topics cannot be changed, and partitions get no new leader",
        "see whether a majority of the controllers runs and reach each other; their logs tell of elections",
    )


def _out_of_sync(voter: Voter, quorum: Quorum) -> str:
    if voter.id == quorum.leader:
        return ""
    if voter.silent_ms is not None and voter.silent_ms >= SILENT_MS:
        return f"has not fetched for {format_duration(voter.silent_ms // 1000 * 1000)}"
    if voter.lag is None:
        return f"has not fetched since {quorum.leader} was elected"
    if voter.lag >= BEHIND:
        return f"is {voter.lag:,} records behind"
    return ""


@rule("KF302", Severity.ERROR, stage=Stage.HEALTH, waivable=False)
def enough_brokers(scene: Scene) -> Iterator[Finding]:
    """Fewer brokers are live than the cluster is declared to have at the least.

    The least number is `brokers:` of the cluster in kafkaform.yaml; without it, this rule says nothing. A
    broker that is down leaves its partitions with fewer copies and the others with its load. See whether it
    is down on purpose; if the cluster was made smaller, lower `brokers:`.
    """
    if scene.health is None or scene.brokers is None or len(scene.health.brokers) >= scene.brokers:
        return
    live = [broker.id for broker in scene.health.brokers]
    missing = scene.brokers - len(live)
    # Replicas still name the brokers that are gone.
    known = {broker for partition in scene.health.partitions for broker in partition.replicas}
    gone = [str(broker) for broker in sorted(known - {*live})]
    holders = f" (replicas are assigned to {listed(gone)}, not live)" if gone else ""
    yield Finding(
        None,
        f"{counted(len(live), 'broker')} live of at least {scene.brokers}: {missing} missing{holders}",
        "bring the missing brokers back, or lower their number, brokers, of this cluster in kafkaform.yaml",
    )
