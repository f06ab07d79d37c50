"""Clients of librdkafka for the driver and for executors, and their errors in one line.

Properties have librdkafka's names. `executor_properties` prepares those of executors: certificates that only
the driver has are sent as PEM text, in the reader that Spark ships.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import logging
import os
import re
import socket
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from spark_validation.errors import ReadingFailed
from spark_validation.text_files import read_file
from spark_validation.windows import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

T = TypeVar("T")

GROUP_ID = "kafkaform-skew"
"""A consumer must have a group. It never joins or commits, so that the account needs no right on it."""

RESPONSE_TIMEOUT_S = 30.0
_FIRST_TURN_S = 0.5
"""The first timeout of a request, which doubles with each attempt up to ANSWER_S in all."""

_POLL_S = 0.05
_MESSAGES = 1_000
"""The most messages that are taken at once."""
NEIGHBOURS = 16
"""The records whose times are compared, so that none of them alone shows when they were written."""

_log = logging.getLogger("spark_validation.librdkafka")

READERS_OWN = frozenset(
    {
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
    }
)
"""The properties that the reader sets itself; those of a file are ignored."""


# --- properties ------------------------------------------------------------------------------------

_PEM_OF = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
    # Those of the OAuth token endpoint: librdkafka does not use the brokers' authorities for it.
    "https.ca.location": "https.ca.pem",
}
_PATH = re.compile(r"\.(location|keytab|file)$")
_NO_PATH = "probe"
"""The value of `ssl.ca.location` that has librdkafka look for the system's authorities."""
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a property
# Not a property of librdkafka's: it allows a client's secret to be sent in clear text to a token endpoint.
_ALLOW_HTTP = "sasl.oauthbearer.token.endpoint.allow.http"
# Kafka's Java clients read a token from such a URL (KIP-768); librdkafka takes only http and https.
_FILE = "file://"
_MSK_IAM = "AWS_MSK_IAM"
# Not a property of librdkafka's: the driver adds it for executors, whose environment may lack it.
_REGION = "aws.region"
# Names of MSK brokers have the region, as in b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com.
_MSK_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\b")


def executor_properties(kafka: Mapping[str, str], *, local: bool) -> dict[str, str]:
    """Return the properties to send to executors.

    Args:
        kafka: Properties by librdkafka's names.
        local: Whether the readers run on this machine; then files stay where they are.

    Raises:
        ReadingFailed: A file cannot be read, or AWS_MSK_IAM has no region.
    """
    sent = dict(kafka)
    if kafka.get("sasl.mechanism") == _MSK_IAM:
        sent[_REGION] = _region(kafka)
    for name, value in kafka.items():
        if not _PATH.search(name) or value == _NO_PATH:
            continue
        path = Path(value).expanduser()
        if path.exists() and not (path.is_file() or path.is_dir()):
            # librdkafka would wait for a named pipe.
            raise ReadingFailed(f"{name}: {path} is not a regular file", hint="give the path of a file")
        if local:
            # Spark's Python workers run in another directory.
            sent[name] = str(path.absolute())
        elif name in _PEM_OF and path.is_file():
            # A folder of authorities has no PEM property, and a file that only executors have cannot be read
            # here: both stay paths.
            del sent[name]
            sent[_PEM_OF[name]] = _read_pem(name, path)
    return sent


def _read_pem(name: str, path: Path) -> str:
    try:
        return read_file(path).decode("ascii")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not PEM text"
        raise ReadingFailed(
            f"{name}: cannot read {path}: {why}", hint="give the path of a PEM file"
        ) from None


def _region(kafka: Mapping[str, str]) -> str:
    """Return the AWS region from a broker's name, or else from AWS's environment variables."""
    broker = _MSK_BROKER.search(kafka.get("bootstrap.servers", "").lower())
    region = kafka.get(_REGION) or (broker[1] if broker else None)
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        raise ReadingFailed(
            "AWS_MSK_IAM needs the cluster's region, and bootstrap.servers does not contain it",
            hint="set the environment variable AWS_REGION",
        )
    return region


def make_client_options(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a librdkafka client on this machine.

    librdkafka gets tokens of an OAuth 2.0 endpoint itself; those of a file and of AWS come from a callback.

    Raises:
        ReadingFailed: A file or the token is missing, or a secret would be sent in clear text.
    """
    _refuse_plain_http(kafka)
    resolved = {
        name: _local_path(name, value) if _PATH.search(name) and value != _NO_PATH else value
        for name, value in kafka.items()
        if name not in {_REGION, _ALLOW_HTTP}
    }
    tokens: Callable[[], tuple[str, float, str, dict[str, str]]]
    if kafka.get("sasl.mechanism") == _MSK_IAM:
        region = _region(kafka)

        def tokens() -> tuple[str, float, str, dict[str, str]]:
            return _request_aws_token(region)

    elif kafka.get(_TOKEN_URL, "").startswith(_FILE):
        path = Path(_local_path(_TOKEN_URL, kafka[_TOKEN_URL].removeprefix(_FILE)))
        extensions = _parse_extensions(kafka.get("sasl.oauthbearer.extensions", ""))

        def tokens() -> tuple[str, float, str, dict[str, str]]:
            return _read_token_file(path, extensions)

    else:
        return resolved
    # A callback's exception would be swallowed, and librdkafka would wait for a token in vain.
    tokens()
    kept = {name: value for name, value in resolved.items() if not name.startswith("sasl.oauthbearer.")}
    return {**kept, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: tokens()}


def _refuse_plain_http(kafka: Mapping[str, str]) -> None:
    """Reject a token endpoint with plain http on another machine, unless a property allows it."""
    url = kafka.get(_TOKEN_URL, "").strip()
    if not url.lower().startswith("http://") or kafka.get(_ALLOW_HTTP, "").lower() == "true":
        return
    with suppress(ValueError):  # a name instead of an address, or neither
        if ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback:
            return
    if urlsplit(url).hostname != "localhost":
        raise ReadingFailed(
            f"{_TOKEN_URL} is plain http: others on the network could read the client's secret and tokens",
            hint=f"use https, or set {_ALLOW_HTTP}=true if the network is private",
        )


def _local_path(name: str, value: str) -> str:
    """Return the path of a file on this machine: as given, or where Spark put a shipped one."""
    path = Path(value).expanduser()
    if path.exists():
        return str(path)
    from pyspark import SparkFiles

    try:
        shipped = Path(SparkFiles.get(path.name))
    except AssertionError:  # there is no SparkContext, so nothing was shipped
        shipped = path
    if not shipped.exists():
        raise ReadingFailed(
            f"{name}: {value} does not exist on {socket.gethostname()}",
            hint=f"ship it with `--spark-conf spark.files=/path/of/{path.name}` (`spark-submit --files`),"
            " or put it under the same path on every executor",
        )
    return str(shipped)


def _parse_extensions(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def _read_token_file(path: Path, extensions: Mapping[str, str]) -> tuple[str, float, str, dict[str, str]]:
    """Return the token of a file that another program renews, and its expiry."""
    try:
        token = read_file(path).decode("ascii").strip()
        payload = token.split(".")[1]
        # JWTs leave out the padding of Base64 (RFC 7515, section 2), which Python's decoder needs.
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        expires_at = float(claims["exp"])
    except OSError as error:
        raise ReadingFailed(
            f"the token file {path} cannot be read: {error.strerror}", hint="check its permissions"
        ) from None
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError):
        raise ReadingFailed(
            f"the token file {path} contains no usable token", hint="Kafka needs a JWT with the claim `exp`"
        ) from None
    if expires_at <= time.time():
        raise ReadingFailed(f"the token of {path} has expired", hint="check what renews it")
    return token, expires_at, str(claims.get("sub") or ""), dict(extensions)


def _request_aws_token(region: str) -> tuple[str, float, str, dict[str, str]]:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise ReadingFailed(
            f"MSK IAM needs the Python package aws-msk-iam-sasl-signer-python on {socket.gethostname()}",
            hint="install it in the Python of the executors: see spark.pyspark.python",
        ) from None
    try:
        token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except (BotoCoreError, ClientError, ValueError, AttributeError) as error:
        # Without credentials, the signer accesses an attribute of None.
        why = "there are no AWS credentials" if isinstance(error, AttributeError) else one_line(str(error))
        raise ReadingFailed(
            f"no token for MSK IAM on {socket.gethostname()}: {why}",
            hint="executors need AWS credentials of their own, such as the role of their machine",
        ) from None
    # The signer gives milliseconds since 1970; librdkafka's callback needs seconds.
    return token, expires_ms / 1000, "AWS IAM", {}


# --- clients and their errors ----------------------------------------------------------------------

_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "this account may not read topic {topic}",
        "grant it READ and DESCRIBE on the topic",
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (
        "this account may not describe the cluster",
        "grant it DESCRIBE on the cluster",
    ),
}
HARMLESS = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._PARTITION_EOF})
"""Codes of errors that a reader ignores: librdkafka looks for its group's coordinator unasked."""
_MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        # A topic that was deleted and made again has another ID, by which brokers are asked (KIP-516).
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_CREDENTIALS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_TLS = KafkaError._SSL
_FINAL = _CREDENTIALS | {_TLS, KafkaError._FATAL}
_UNREACHABLE = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._ALL_BROKERS_DOWN})
_MOVED = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
_LATE = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT})
_ADDRESSES = (
    "check that this account's network reaches the brokers' advertised addresses, and security.protocol"
)


def make_reading_error(error: KafkaError | KafkaException, topic: str) -> ReadingFailed:
    """Return the one-line error for an error of librdkafka's, with a hint.

    Args:
        error: The error that a client returned or raised.
        topic: The topic that was read.
    """
    if isinstance(error, KafkaException):
        first = error.args[0] if error.args else None
        if not isinstance(first, KafkaError):
            return ReadingFailed(f"the Kafka client failed: {one_line(str(error))}")
        error = first
    code, text = error.code(), one_line(error.str())
    if code in _DENIED:
        message, hint = _DENIED[code]
        return ReadingFailed(message.format(topic=topic), hint=hint)
    if code in _MISSING:
        return ReadingFailed(
            f"topic {topic} does not exist, or was deleted while it was being read",
            hint="`kafkaform get topics` lists the topics that this account can see",
        )
    if code in _CREDENTIALS:
        return ReadingFailed(
            f"the broker rejected the credentials: {text}",
            hint="check sasl.mechanism, the user name and the password",
        )
    if code == _TLS:
        return ReadingFailed(
            f"the TLS connection to the broker failed: {text}",
            hint="check ssl.ca.location, and that the broker's certificate has its host name",
        )
    if code in _UNREACHABLE:
        return ReadingFailed(f"no broker can be reached: {text}", hint=_ADDRESSES)
    if code in _LATE:
        return ReadingFailed(f"Kafka did not answer in time: {text}", hint=_ADDRESSES)
    return ReadingFailed(f"topic {topic} cannot be read: {text} ({error.name()})")


def _code(error: KafkaException) -> int | None:
    first = error.args[0] if error.args else None
    return first.code() if isinstance(first, KafkaError) else None


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.replace("\0", " ").split())


class Problems:
    """The errors that librdkafka reports by callback, such as lost brokers and rejected credentials."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None
        self._final: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Record an error; librdkafka calls this while its client is polled."""
        if error.code() in HARMLESS:
            return
        if error.code() in _FINAL:
            self._final = error
        # That all brokers are down is less specific than the error of the last one.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._last is None:
            self._last = error

    def check(self, topic: str) -> None:
        """Raise ReadingFailed for a problem that does not pass by itself, such as a wrong password."""
        if self._final is not None:
            raise make_reading_error(self._final, topic)

    def make_silence_error(self, topic: str, waited_s: float) -> ReadingFailed:
        """Return the error for records or responses that did not come, with librdkafka's reason if any."""
        if self._last is not None:
            return make_reading_error(self._last, topic)
        return ReadingFailed(
            f"Kafka sent no data of topic {topic} within {waited_s:.0f} s",
            hint="try again; if the brokers are slow, read fewer records with --records",
        )


def make_client(
    kind: Callable[[dict[str, Any]], T], kafka: Mapping[str, str], more: Mapping[str, Any] | None = None
) -> tuple[T, Problems]:
    """Make a client of librdkafka.

    Args:
        kind: The class, such as `confluent_kafka.Consumer`.
        kafka: Properties by librdkafka's names, secrets among them.
        more: Further options, which override the others.

    Returns:
        The client, and the collector of its errors.

    Raises:
        ReadingFailed: A property is not accepted, a file is missing, or there is no token.
    """
    problems = Problems()
    try:
        client = kind(
            {
                # Brokers log it, and quotas may be set for it.
                "client.id": GROUP_ID,
                # Brokers close idle connections (connections.max.idle.ms), which is no problem.
                "log.connection.close": False,
                **make_client_options(kafka),
                # After the user's properties, which must not replace the collector of errors.
                "error_cb": problems,
                # Without a logger, librdkafka writes its log to stderr.
                "logger": _log,
                **(more or {}),
            }
        )
    except KafkaException as error:
        first = error.args[0] if error.args else None
        if isinstance(first, KafkaError) and first.code() in _CREDENTIALS:
            raise make_reading_error(first, "") from None  # no token came within ten seconds
        why = one_line(first.str() if isinstance(first, KafkaError) else str(error))
        raise ReadingFailed(
            f"the client properties are not accepted: {why}",
            hint="names and values are librdkafka's: docs/clients.md lists them",
        ) from None
    return client, problems


# --- offsets ---------------------------------------------------------------------------------------


class OffsetReader:
    """A reader of partition offsets for use without kafkaform's own clients.

    A consumer asks: librdkafka's admin client ended processes by SIGSEGV when many of its requests for
    offsets were under way (a worker of ListOffsets locks the mutex of a query that another thread has freed).

    Args:
        kafka: Properties by librdkafka's names, secrets among them.

    Raises:
        ReadingFailed: The properties are not accepted.
    """

    def __init__(self, kafka: Mapping[str, str]) -> None:
        # The end of a log is then its last stable offset: records of open transactions come after it.
        own = {
            "group.id": GROUP_ID,
            # Or it commits offsets, and reads nothing more while it waits for the right to do so.
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
            # A few records are read of many partitions.
            "enable.partition.eof": True,
            # Where retention has removed an offset meanwhile: no warning (4) is needed of that.
            "auto.offset.reset": "earliest",
            "log_level": 3,
            "max.partition.fetch.bytes": 2**16,
            # With fewer, each partition waits until messages of others are taken: a second for 12, not 6 ms.
            "queued.min.messages": 1_000,
            # Of batches larger than that, a broker sends one a request: the next one is of another partition.
            "fetch.queue.backoff.ms": 2,
            "fetch.wait.max.ms": 20,
        }
        self._kafka = kafka
        self._client, self._problems = make_client(Consumer, kafka, own)
        # A consumer that is not closed may spin for 45 s when it is freed (librdkafka 2.16).
        weakref.finalize(self, self._client.close)

    def cluster_id(self) -> str | None:
        """Return the cluster's own id.

        Raises:
            ReadingFailed: No broker answers, or access is denied.
        """
        cluster: Any = self._request(lambda timeout: self._client.list_topics(timeout=timeout), "")
        cluster_id: str | None = cluster.cluster_id
        return cluster_id

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Read the ids of topics, without those that have none (before Kafka 2.8) or cannot be described."""
        # A consumer has no request for ids; this client is asked for no offsets.
        admin, _ = make_client(AdminClient, self._kafka)
        ids: dict[str, str] = {}
        requested = admin.describe_topics(TopicCollection([*topics]), request_timeout=RESPONSE_TIMEOUT_S)
        for topic, future in requested.items():
            try:
                ids[topic] = str(future.result().topic_id)
            except KafkaException as error:
                _log.debug("the id of %s: %s", topic, error)  # its offsets have the same error
        return ids

    def spans(self, topics: Iterable[str]) -> tuple[dict[str, list[Span]], dict[str, ReadingFailed]]:
        """Read the offsets of each topic's partitions as a read_committed consumer sees them.

        Args:
            topics: The names; missing topics are not created.

        Returns:
            The spans of topics, without the bytes of their logs, which librdkafka cannot request; and the
            errors of the others.

        Raises:
            ReadingFailed: No broker answers, or access is denied.
        """
        failed: dict[str, ReadingFailed] = {}
        partitions: list[tuple[str, int]] = []
        for topic in sorted({*topics}):
            try:
                partitions += [(topic, number) for number in self._partitions(topic)]
            except ReadingFailed as error:
                self._problems.check(topic)
                failed[topic] = error
        starts, ends = (
            self._list_offsets(dict.fromkeys(partitions, end)) for end in (OFFSET_BEGINNING, OFFSET_END)
        )
        spans: dict[str, list[Span]] = {}
        for topic, number in partitions:
            start, end = starts[topic, number], ends[topic, number]
            errors = [offset.error for offset in (start, end) if offset.error is not None]
            if errors:
                failed.setdefault(topic, make_reading_error(errors[0], topic))
                continue
            # Between the two requests a log may have been cut short, by an unclean election.
            spans.setdefault(topic, []).append(Span(number, min(start.offset, end.offset), end.offset))
        return {topic: own for topic, own in spans.items() if topic not in failed}, failed

    def find_offsets(self, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], tuple[int, int]]:
        """Find the first records that are not older than given times, for `arrivals.find_arrivals`.

        librdkafka does not return their timestamps, so that the records are read. Where the first one is a
        transaction marker, that is the next record, which may be older.

        Raises:
            ReadingFailed: No broker answers, or access is denied.
        """
        responses = self._list_offsets(times)
        for (topic, _), response in responses.items():
            if response.error is not None:
                raise make_reading_error(response.error, topic)
        offsets = {
            partition: response.offset for partition, response in responses.items() if response.offset >= 0
        }
        read = self.read_records(offsets, 1)
        for topic, number in offsets.keys() - read.keys():
            self._problems.check(topic)
            raise self._problems.make_silence_error(f"{topic}:{number}", RESPONSE_TIMEOUT_S)
        return {
            partition: (offsets[partition], records[0][1]) for partition, records in read.items() if records
        }

    def read_records(
        self, offsets: Mapping[tuple[str, int], int], count: int = NEIGHBOURS
    ) -> dict[tuple[str, int], list[tuple[int, int]]]:
        """Read the first records of partitions from given offsets on.

        Args:
            offsets: The offset of each partition.
            count: The most records of a partition.

        Returns:
            The offsets and times of the records (ms since 1970). Partitions that cannot be read are left out.
        """
        records: dict[tuple[str, int], list[tuple[int, int]]] = {partition: [] for partition in offsets}
        if not offsets:
            return records
        waiting = {*offsets}
        self._client.assign([TopicPartition(*partition, offset) for partition, offset in offsets.items()])
        try:
            deadline = time.monotonic() + RESPONSE_TIMEOUT_S
            while waiting and time.monotonic() < deadline:
                done = []
                for message in self._client.consume(min(count * len(waiting), _MESSAGES), _POLL_S):
                    partition: Any = message.topic(), message.partition()
                    error = message.error()
                    if partition not in waiting:
                        continue
                    if error is None:
                        records[partition].append((message.offset() or 0, message.timestamp()[1]))
                    elif error.code() != KafkaError._PARTITION_EOF:
                        del records[partition]
                    if error is not None or len(records[partition]) >= count:
                        waiting.discard(partition)
                        done.append(TopicPartition(*partition))
                # Or it goes on fetching them.
                if done:
                    self._client.incremental_unassign(done)
        finally:
            # The consumer would go on fetching these partitions.
            self._client.unassign()
        return {partition: own for partition, own in records.items() if partition not in waiting}

    def configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """Read the configs of topics that are in force; a topic whose configs may not be read is left out."""
        if not topics:
            return {}
        # A consumer has no request for configs; this client is asked for no offsets.
        admin, _ = make_client(AdminClient, self._kafka)
        requested = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        configs: dict[str, dict[str, str]] = {}
        for resource, future in admin.describe_configs(requested, request_timeout=RESPONSE_TIMEOUT_S).items():
            try:
                entries = future.result()
            except KafkaException as error:
                # The topic is still measured: without its configs, its log is treated as compacted.
                _log.debug("the configs of %s: %s", resource.name, error)
                continue
            configs[resource.name] = {name: entry.value or "" for name, entry in entries.items()}
        return configs

    def _partitions(self, topic: str) -> list[int]:
        metadata = self._request(lambda timeout: self._client.list_topics(topic, timeout=timeout), topic)
        described = metadata.topics[topic]
        if described.error is not None:
            raise make_reading_error(described.error, topic)
        # Leaders answer requests for offsets: librdkafka would wait for one until its timeout.
        leaderless = sorted(number for number, part in described.partitions.items() if part.leader < 0)
        if leaderless:
            raise ReadingFailed(
                f"partition {leaderless[0]} of topic {topic} has no leader",
                hint="wait until its brokers are back",
            )
        return sorted(described.partitions)

    def _list_offsets(self, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], TopicPartition]:
        """Read the first offset of each partition that is not older than a time, or its log's start or end.

        The request is ListOffsets, in which OFFSET_BEGINNING and OFFSET_END are special times.
        """
        if not times:
            return {}
        topic = next(iter(times))[0]
        requested = [TopicPartition(name, number, time_ms) for (name, number), time_ms in times.items()]
        response = self._request(
            lambda timeout: self._client.offsets_for_times(requested, timeout=timeout), topic
        )
        return {(offset.topic, offset.partition): offset for offset in response}

    def _request(self, request: Callable[[float], T], topic: str) -> T:
        """Send a request with growing timeouts, so that denied access is reported before the time is up.

        Args:
            request: Takes the seconds that it may block.
            topic: The topic to name in an error.
        """
        began, turn_s = time.monotonic(), _FIRST_TURN_S
        while True:
            try:
                return request(turn_s)
            except KafkaException as error:
                self._client.poll(0)  # has the client report its problems
                self._problems.check(topic)
                if _code(error) in _MOVED and time.monotonic() - began < RESPONSE_TIMEOUT_S:
                    # The response comes at once; the client then asks for the new leader.
                    time.sleep(turn_s)
                elif _code(error) not in _LATE | _UNREACHABLE:
                    raise make_reading_error(error, topic) from None
            waited_s = time.monotonic() - began
            if waited_s >= RESPONSE_TIMEOUT_S:
                raise self._problems.make_silence_error(topic, RESPONSE_TIMEOUT_S)
            turn_s = min(2 * turn_s, max(RESPONSE_TIMEOUT_S - waited_s, _FIRST_TURN_S))
