"""Limits of services that speak Kafka's protocol, each with its source.

Emulated, not tried on the services. Versions are taken from what a service itself answered
(`kafka-broker-api-versions.sh`, quoted in an issue) or from its source code. What no source shows is left as
the brokers behind the proxy have it. Sources without a host are issues and pull requests on github.com.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from tests.support.clusters.vendor_proxy import (
    ALTER_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    INCREMENTAL_ALTER_CONFIGS,
    Policy,
    Profile,
    Refusal,
)

_UNKNOWN_TOPIC = 3
_INVALID_REPLICATION_FACTOR, _INVALID_CONFIG, _INVALID_REQUEST, _POLICY_VIOLATION = 38, 40, 42, 44
_TOPIC, _BROKER = 2, 4


def _first(*policies: Policy) -> Policy:
    """Return the answer of the first of several that refuses."""

    def judge(item: dict[str, Any]) -> Refusal | None:
        return next((refusal for policy in policies if (refusal := policy(item))), None)

    return judge


def _refuse(is_meant: Callable[[dict[str, Any]], bool], code: int, message: str) -> Policy:
    return lambda item: Refusal(code, message) if is_meant(item) else None


def _is_broker(item: dict[str, Any]) -> bool:
    return bool(item["type"] == _BROKER)


def _only_configs(allowed: Collection[str], message: str) -> Policy:
    """Refuse topics with other configs than these; `{}` in the message stands for the first of them."""

    def judge(item: dict[str, Any]) -> Refusal | None:
        if item.get("type", _TOPIC) != _TOPIC:
            return None
        wrong = [config["name"] for config in item["configs"] if config["name"] not in allowed]
        return Refusal(_INVALID_CONFIG, message.format(wrong[0])) if wrong else None

    return judge


def _ignoring(configs: Collection[str]) -> Policy:
    """Take these configs out of what is asked for: the service says yes to them and does nothing."""

    def judge(item: dict[str, Any]) -> None:
        if item.get("type", _TOPIC) == _TOPIC:
            item["configs"] = [config for config in item["configs"] if config["name"] not in configs]

    return judge


def _replicas(item: dict[str, Any]) -> int | None:
    """The replication factor that a topic is created with; None for the brokers' default."""
    places = item["assignments"]
    given = len(places[0]["replicas"]) if places else int(item["replication_factor"])
    return None if given == -1 else given


def _versions(text: str) -> dict[int, tuple[int, int]]:
    """Versions of requests, written `KEY:LEAST-MOST`."""
    pairs: Iterable[tuple[str, str]] = (tuple(entry.split(":")) for entry in text.split())  # type: ignore[misc]
    return {int(key): (int(v.partition("-")[0]), int(v.partition("-")[2])) for key, v in pairs}


# Keys 0-25: kafka-broker-api-versions.sh on MSK Serverless in tchiotludo/akhq/pull/1113 (2022-06).
# 35 and 45 UNSUPPORTED, 46 supported: provectus/kafka-ui/issues/3331, segmentio/topicctl/issues/69.
# 44 v1: the log in strimzi/strimzi-kafka-operator/pull/9606. The versions are those of Kafka 2.8, so that
# what later releases added is not there (55 came with KRaft); the rest of 26-60 is as 2.8 has it.
_MSK_KEYS = _versions(
    "0:7-9 1:10-12 2:5-6 3:7-11 8:6-8 9:5-7 10:2-3 11:4-7 12:2-4 13:2-4 14:2-5 15:2-5 16:2-4 17:1-1 18:2-3"
    " 19:3-7 20:3-6 22:1-4 23:2-4 24:1-3 25:1-3 26:0-3 28:0-3 32:0-4 33:0-2 36:0-2 37:0-3 42:0-2 44:0-1"
    " 46:0-0 47:0-0 60:0-0"
)
# docs.aws.amazon.com/msk/latest/developerguide/serverless-config.html; the words are from
# strimzi/strimzi-kafka-operator/pull/9606.
_MSK_ALTERABLE = (
    "compression.type",
    "max.message.bytes",
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "retention.bytes",
    "retention.ms",
)
MSK_SERVERLESS = Profile(
    "msk-serverless",
    offered=_MSK_KEYS,
    policies={
        CREATE_TOPICS: _only_configs(
            (*_MSK_ALTERABLE, "cleanup.policy"),
            "Amazon MSK Serverless can't set topic configuration {} at creation.",
        ),
        INCREMENTAL_ALTER_CONFIGS: _only_configs(
            _MSK_ALTERABLE,
            "Amazon MSK Serverless can't alter topic configuration {}. Only the following topic"
            f" configurations are alterable: [{', '.join(_MSK_ALTERABLE)}].",
        ),
        # InvalidRequestException: loadBrokersConfig in ReactiveAdminClient of provectus/kafka-ui.
        DESCRIBE_CONFIGS: _refuse(_is_broker, _INVALID_REQUEST, "Broker configurations cannot be described"),
    },
)

# redpanda-data/redpanda, src/v/kafka/server/handlers, at 1c6cff34 (2024-12, before v25.1): the type
# parameters of each handler, and handlers.h for which there are.
_REDPANDA_KEYS = _versions(
    "0:0-7 1:4-11 2:0-4 3:0-8 8:1-8 9:1-7 10:0-3 11:0-6 12:0-4 13:0-4 14:0-4 15:0-5 16:0-4 17:0-1 18:0-3"
    " 19:0-6 20:0-5 21:0-2 22:0-3 23:0-4 24:0-3 25:0-1 26:0-3 28:0-3 29:0-2 30:0-2 31:0-2 32:0-4 33:0-2"
    " 35:0-2 36:0-2 37:0-3 42:0-2 44:0-1 45:0-0 46:0-0 47:0-0 48:0-1 49:0-1 61:0-0 65:0-0 66:0-0"
)
# allowlist_topic_noop_confs in topics/types.h: accepted and ignored.
_REDPANDA_IGNORED = (
    "unclean.leader.election.enable",
    "message.downconversion.enable",
    "segment.index.bytes",
    "segment.jitter.ms",
    "min.insync.replicas",
    "min.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "message.timestamp.difference.max.ms",
    "message.format.version",
    "max.compaction.lag.ms",
    "leader.replication.throttled.replicas",
    "index.interval.bytes",
    "follower.replication.throttled.replicas",
    "flush.messages",
    "file.delete.delay.ms",
    "preallocate",
)
REDPANDA = Profile(
    "redpanda",
    offered=_REDPANDA_KEYS,
    policies={
        CREATE_TOPICS: _first(
            _ignoring(_REDPANDA_IGNORED),
            # replication_factor_must_be_odd in topics/validators.h.
            _refuse(
                lambda topic: (_replicas(topic) or 1) % 2 == 0,
                _INVALID_REPLICATION_FACTOR,
                "Replication factor must be an odd number - 1,3,5,7,9,11...",
            ),
        ),
        INCREMENTAL_ALTER_CONFIGS: _first(
            # alter_broker_configuration in incremental_alter_configs.cc, which gets all that is no topic.
            _refuse(
                lambda item: item["type"] != _TOPIC and item["name"] != "",
                _INVALID_CONFIG,
                "Setting broker properties on named brokers is unsupported",
            ),
            _ignoring(_REDPANDA_IGNORED),
        ),
        # create_partitions.cc.
        CREATE_PARTITIONS: _refuse(
            lambda topic: bool(topic["assignments"]),
            _INVALID_REQUEST,
            "Redpanda does not yet support custom partitions assignment",
        ),
    },
)

# Read-only configs: confluentinc/terraform-provider-confluent/issues/98 and
# docs.confluent.io/cloud/current/topics/manage.html; altered, they are taken and ignored:
# michelin/ns4kafka/issues/377.
_CONFLUENT_READ_ONLY = (
    "compression.type",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "index.interval.bytes",
    "min.cleanable.dirty.ratio",
    "preallocate",
    "segment.index.bytes",
    "segment.jitter.ms",
    "unclean.leader.election.enable",
)


def _compacts(item: dict[str, Any]) -> bool:
    """Return whether a topic is to be compacted; every one of the tests is made with `delete`."""
    given = {config["name"]: config["value"] or "" for config in item["configs"]}
    return "compact" in given.get("cleanup.policy", "")


_DENIED = Refusal(31, "Cluster authorization failed.")
"""Confluent's own words in tchiotludo/akhq/issues/1317."""
CONFLUENT_CLOUD = Profile(
    "confluent-cloud",
    policies={
        # HermesGermany/galapagos/issues/289, confluentinc/ksql/issues/3942.
        CREATE_TOPICS: _first(
            _ignoring(_CONFLUENT_READ_ONLY),
            _refuse(
                lambda topic: _replicas(topic) not in (None, 3),
                _POLICY_VIOLATION,
                "Topic replication factor must be 3",
            ),
        ),
        INCREMENTAL_ALTER_CONFIGS: _first(
            # confluentinc/terraform-provider-confluent/issues/251.
            _refuse(_is_broker, _POLICY_VIOLATION, "Altering resources of type BROKER is not permitted"),
            # michelin/ns4kafka/issues/184.
            _refuse(
                _compacts,
                _INVALID_CONFIG,
                "Altering topic configuration from `delete` to `compact` is not currently supported."
                " Please create a new topic with `compact` policy specified instead.",
            ),
            _ignoring(_CONFLUENT_READ_ONLY),
        ),
    },
    # Of reassignments, nobody can be given the right: redpanda-data/kminion/issues/313.
    denied=dict.fromkeys((DESCRIBE_LOG_DIRS, ALTER_REASSIGNMENTS), _DENIED),
)

# Keys 0-14: the table in IBM/sarama/issues/2470 (2023-08); 15-23: Azure/azure-event-hubs-for-kafka/issues/69;
# 32-44: issue 209 there (2022-09). What these call UNSUPPORTED, or do not list, is left out.
_EVENT_HUBS_KEYS = _versions(
    "0:3-7 1:4-6 2:0-7 3:0-5 8:0-8 9:0-8 10:0-1 11:0-7 12:0-4 13:0-4 14:0-5 15:0-1 16:0-1 17:0-1 18:0-3"
    " 19:0-2 20:0-2 22:0-1 23:0-0 32:0-2 36:0-1 37:0-1 42:0-0"
)
EVENT_HUBS = Profile(
    "event-hubs",
    offered=_EVENT_HUBS_KEYS,
    policies={
        # UnknownTopicOrPartitionException: loadBrokersConfig in ReactiveAdminClient of provectus/kafka-ui.
        DESCRIBE_CONFIGS: _refuse(
            _is_broker, _UNKNOWN_TOPIC, "This server does not host this topic-partition."
        )
    },
    # Azure resets the connection on ApiVersions v4: twmb/franz-go/pull/1022, dpkp/kafka-python/issues/2602.
    hangs_up_on_newer=True,
)

PROFILES = {profile.name: profile for profile in (MSK_SERVERLESS, REDPANDA, CONFLUENT_CLOUD, EVENT_HUBS)}
