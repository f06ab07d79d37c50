"""The rules of a controller for quotas in memory: pure, answered as real brokers answer.

The codes and texts were seen on Apache Kafka 4.3.1.
"""

from collections.abc import Mapping

from kafkaform.resources.client_quota.entity import QuotaEntity, parse_entity
from kafkaform.resources.client_quota.operations import AlterQuota
from kafkaform.resources.client_quota.spec import keys_of, value_text
from tests.support.memory_cluster.controller import build_rejection


def result(
    quotas: Mapping[QuotaEntity, Mapping[str, str]], operation: AlterQuota
) -> tuple[QuotaEntity, Mapping[str, str]]:
    """Return the entity of an alteration, and its limits afterwards; raise what a controller objects to."""
    try:
        entity = parse_entity(operation.ref.name)
    except ValueError as error:
        raise build_rejection("INVALID_REQUEST", str(error)) from error
    known = keys_of(entity)
    for name in operation.set:
        if name not in known:
            raise build_rejection("INVALID_REQUEST", f"Invalid configuration key {name}")
    before = quotas.get(entity, {})
    after = {name: value for name, value in before.items() if name not in operation.unset}
    return entity, after | {name: value_text(name, float(value)) for name, value in operation.set.items()}
