"""What the skew policy of a topic says of a partition increase, by what its records were measured to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.wording import command, setting
from kafkaform.resources.skew_policy import limits_of
from kafkaform.resources.skew_prediction import increase, predicted
from kafkaform.resources.skew_wording import plain, ratio
from kafkaform.rules.catalogue import Finding, Scene, Stage, rule
from kafkaform.rules.topic_partitions import EVEN_COUNTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.resources.skew_prediction import Prediction
    from spark_validation.results import TopicResult

_LIMIT = "raise skew.maxPartitionRatio in a reviewed commit"


@rule("KF506", Severity.ERROR, stage=Stage.FORECAST)
def forbidden_increase(scene: Scene) -> Iterator[Finding]:
    """A partition increase is predicted to leave the fullest partition further above the mean than allowed.

    More partitions do not divide a hot key: the mean sinks, and the key's partition stays as it is. What
    the keys that were measured come to on the planned count is compared with `skew.maxPartitionRatio` of
    the manifest. Where the whole interval lies above the limit, the topic's change is refused. It is a
    warning where the limit lies within the interval, and where the topic is beyond its limit already and
    the increase makes that better: a step in the right direction is not held back. Only
    `kafkaform plan --skew` knows of this.
    """
    for planned in scene.changes:
        counts, result = increase(planned.change), scene.skew.get(planned.ref.name)
        subject = scene.declared.get(planned.ref)
        limits = limits_of(subject.intent) if subject is not None else None
        if counts is None or result is None or limits is None or limits.max_partition_ratio is None:
            continue
        before, after = counts
        limit, prediction = limits.max_partition_ratio, predicted(result, before, after, limits.by)
        if prediction is None or prediction.after.high <= limit:
            continue
        sure = prediction.after.low > limit
        better = sure and _mends(prediction, limit)
        yield Finding(
            subject,
            f"{result.name}: with {after} partitions the fullest is predicted to have "
            f"{ratio(prediction.after, limit)} times the mean {limits.by}; the policy allows {plain(limit)}"
            + _compared(prediction, before, limit),
            _remedy(result, after, limit, limits.by, prediction)
            if sure
            else "the limit lies within the interval; read every record: "
            + command("skew", result.name, options=("--what-if", str(after), "--full")),
            None if sure and not better else Severity.WARNING,
            "partitions",
        )


def _mends(prediction: Prediction, limit: float) -> bool:
    return prediction.improves and prediction.before is not None and prediction.before.value > limit


def _compared(prediction: Prediction, before: int, limit: float) -> str:
    if prediction.before is None:
        return ""
    now = f", and it has {ratio(prediction.before, limit)} with {before} now"
    return f"{now}, which is worse" if _mends(prediction, limit) else now


def _remedy(result: TopicResult, after: int, limit: float, by: str, prediction: Prediction) -> str:
    """What keeps the limit, as far as it was computed."""
    if prediction.hot_key is not None:
        return f"split the hot key first: no partition count divides it; or {_LIMIT}"
    kept = [
        count
        for count in sorted(what_if.partitions for what_if in result.what_if)
        if count > len(result.partitions)
        and (other := predicted(result, len(result.partitions), count, by)) is not None
        and other.after.high <= limit
    ]
    if kept:
        nearest = min(kept, key=lambda count: abs(count - after))
        return f"write {setting('partitions', nearest)}, which is predicted to keep it; or {_LIMIT}"
    others = [count for count in EVEN_COUNTS if count > len(result.partitions) and count != after][:4]
    counts = ",".join(map(str, others or (2 * after, 3 * after)))
    look = command("skew", result.name, options=("--what-if", counts))
    return f"look for a count that keeps it: {look}; or {_LIMIT}"
