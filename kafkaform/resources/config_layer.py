"""Config values of a manifest, in canonical spelling; the same for every kind that has configs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ConfigType

if TYPE_CHECKING:
    from kafkaform.core.kafka_configs import ConfigKey
    from kafkaform.resources.base import ReportProblem

BAD = object()
"""What stands for a value that has been reported."""


def canonical_value(
    key: ConfigKey | None, name: str, value: object, path: tuple[str, ...], report: ReportProblem
) -> object:
    """The canonical text of a value, None for null, or BAD for one that has been reported.

    Args:
        key: What Kafka knows of the config; None if nothing.
        name: The config's name.
        value: What the manifest says: a scalar, a list, or null.
        path: Where it says so.
        report: Takes what is wrong.
    """
    if value is None:
        return None
    if isinstance(value, list):
        if key is not None and key.type is not ConfigType.LIST:
            report(path, f"{name}: is not a list", "write one value")
            return BAD
        value = ",".join(map(str, value))
    try:
        return kafka_configs.canonical(key, str(value))
    except ValueError as error:
        report(path, str(error), None)
        return BAD
