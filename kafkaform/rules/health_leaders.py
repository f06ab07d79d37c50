"""Rules about who leads partitions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.wording import counted, listed
from kafkaform.rules.catalogue import Finding, Scene, Stage, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.health import Health

FEWEST_ABOVE = 3
"""A broker with fewer leaders above the mean than this is not worth a word: small clusters are never even."""


@rule("KF308", Severity.INFO, stage=Stage.HEALTH, waivable=False)
def leaders_even(scene: Scene) -> Iterator[Finding]:
    """Leaders are uneven over the brokers, or preferred leaders do not lead.

    Producers and consumers talk to leaders, so a broker that leads more partitions carries more load, and is
    the first to be full. A broker trips this with more leaders above the mean than `leaderImbalance` of
    `limits:` in kafkaform.yaml allows (30 percent), and at least three. After a restart the first replica of
    each partition, its preferred leader, leads again within five minutes (auto.leader.rebalance.enable),
    though brokers leave up to 10 % where they are. If it stays uneven, `kafkaform rebalance` plans which
    replicas come first, and elects the preferred leaders.
    """
    health = scene.health
    if health is None or not health.brokers:
        return
    leaders = Counter({broker.id: 0 for broker in health.brokers})
    leaders.update(p.leader for p in health.partitions if p.leader is not None)
    mean = leaders.total() / len(leaders)
    limit = mean * (1 + scene.limits.leader_imbalance / 100)
    above = [
        f"broker {broker} leads {number:,}"
        for broker, number in leaders.most_common()
        if number > limit and number - mean >= FEWEST_ABOVE
    ]
    if above:
        yield Finding(
            None,
            f"leaders are uneven over {counted(len(leaders), 'broker')}: {listed(above)}, "
            f"the mean is {mean:,.1f}",
            "kafkaform rebalance plans an even spread of leaders, at the price of few moves",
        )
    yield from _not_leading(health)


def _not_leading(health: Health) -> Iterator[Finding]:
    live = {broker.id for broker in health.brokers}
    passed_over = Counter(
        p.replicas[0]
        for p in health.partitions
        # One that is down or out of sync cannot lead; that is for other rules to tell.
        if p.leader not in {None, p.replicas[0]} and p.replicas[0] in live and p.replicas[0] in p.isr
    )
    if passed_over:
        total = passed_over.total()
        brokers = [f"broker {broker} in {number:,}" for broker, number in passed_over.most_common()]
        yield Finding(
            None,
            f"the preferred leader of {counted(total, 'partition')} is in sync and does not lead: "
            f"{listed(brokers)}",
            "wait: within five minutes of a restart brokers elect them again (auto.leader.rebalance.enable)",
        )
