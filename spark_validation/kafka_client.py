"""Clients of librdkafka, made alike on the driver and on executors, and their errors in one line.

Properties have librdkafka's names. `travelling` makes those that executors get: certificates that only the
driver has are sent as PEM text, in the reader that Spark ships.
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
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from spark_validation.errors import ReadingFailed
from spark_validation.windows import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

T = TypeVar("T")

GROUP_ID = "kafkaform-skew"
"""A consumer must have one. It never joins nor commits, so the account needs no right on it."""

ANSWER_S = 30.0
_FIRST_TURN_S = 0.5

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
"""What the reader sets itself, whatever a file of properties says."""


# --- properties ------------------------------------------------------------------------------------

_PEM_OF = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
    "https.ca.location": "https.ca.pem",
}
_PATH = re.compile(r"\.(location|keytab|file)$")
_NO_PATH = "probe"
"""The value of `ssl.ca.location` that has librdkafka look for the system's authorities."""
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a property
_ALLOW_HTTP = "sasl.oauthbearer.token.endpoint.allow.http"
"""No property of librdkafka's: it lets a client's secret go to a token endpoint in the clear."""
_FILE = "file://"
_MSK_IAM = "AWS_MSK_IAM"
_REGION = "aws.region"
"""No property of librdkafka's: the driver adds it for executors, whose environment may not name it."""
_MSK_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\b")


def travelling(kafka: Mapping[str, str], *, local: bool) -> dict[str, str]:
    """The properties as executors are sent them.

    Args:
        kafka: Properties by librdkafka's names.
        local: Whether the readers run on this machine; then files stay where they are.

    Raises:
        ReadingFailed: A certificate cannot be read, or AWS_MSK_IAM has no region.
    """
    sent = dict(kafka)
    if kafka.get("sasl.mechanism") == _MSK_IAM:
        sent[_REGION] = _region(kafka)
    for name, value in kafka.items():
        if not _PATH.search(name) or value == _NO_PATH:
            continue
        path = Path(value).expanduser()
        if local:
            # Spark's Python workers run in another directory.
            sent[name] = str(path.absolute())
        elif name in _PEM_OF and path.is_file():
            del sent[name]
            sent[_PEM_OF[name]] = _text(name, path)
    return sent


def _text(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not PEM text"
        raise ReadingFailed(
            f"{name}: cannot read {path}: {why}", hint="give the path of a PEM file"
        ) from None


def _region(kafka: Mapping[str, str]) -> str:
    """The AWS region, by the name of a broker, or by AWS's own variables."""
    named = _MSK_BROKER.search(kafka.get("bootstrap.servers", "").lower())
    region = kafka.get(_REGION) or (named[1] if named else None)
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        raise ReadingFailed(
            "AWS_MSK_IAM needs the cluster's region, and bootstrap.servers does not contain it",
            hint="set the environment variable AWS_REGION",
        )
    return region


def options(kafka: Mapping[str, str]) -> dict[str, Any]:
    """The properties as clients of librdkafka take them, on the machine where this is called.

    librdkafka gets tokens of an OAuth 2.0 endpoint itself; those of a file and of AWS come from a callback.

    Raises:
        ReadingFailed: A file is not here, there is no token, or a secret would go out in the clear.
    """
    _refuse_plain_http(kafka)
    found = {
        name: _here(name, value) if _PATH.search(name) and value != _NO_PATH else value
        for name, value in kafka.items()
        if name not in {_REGION, _ALLOW_HTTP}
    }
    tokens: Callable[[], tuple[str, float, str, dict[str, str]]]
    if kafka.get("sasl.mechanism") == _MSK_IAM:
        region = _region(kafka)

        def tokens() -> tuple[str, float, str, dict[str, str]]:
            return _of_aws(region)

    elif kafka.get(_TOKEN_URL, "").startswith(_FILE):
        path = Path(_here(_TOKEN_URL, kafka[_TOKEN_URL].removeprefix(_FILE)))
        extensions = _extensions(kafka.get("sasl.oauthbearer.extensions", ""))

        def tokens() -> tuple[str, float, str, dict[str, str]]:
            return _of_file(path, extensions)

    else:
        return found
    # A callback's exception would be swallowed, and librdkafka would wait for a token in vain.
    tokens()
    kept = {name: value for name, value in found.items() if not name.startswith("sasl.oauthbearer.")}
    return {**kept, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: tokens()}


def _refuse_plain_http(kafka: Mapping[str, str]) -> None:
    """Refuse a token endpoint of plain http that is not on this machine, unless it is allowed by name."""
    url = kafka.get(_TOKEN_URL, "").strip()
    if not url.lower().startswith("http://") or kafka.get(_ALLOW_HTTP, "").lower() == "true":
        return
    with suppress(ValueError):  # a name, or nothing that could be one
        if ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback:
            return
    if urlsplit(url).hostname != "localhost":
        raise ReadingFailed(
            f"{_TOKEN_URL} is plain http: the client's secret and its tokens could be read on the way",
            hint=f"use https, or set {_ALLOW_HTTP}=true if nobody else can read this network",
        )


def _here(name: str, value: str) -> str:
    """The path of a file on this machine: as it was given, or where Spark put what it shipped."""
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
            hint=f"ship it with --spark-conf spark.files=/path/of/{path.name} (spark-submit --files),"
            " or put it under the same path on every executor",
        )
    return str(shipped)


def _extensions(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def _of_file(path: Path, extensions: Mapping[str, str]) -> tuple[str, float, str, dict[str, str]]:
    """The token of a file that somebody else renews, and when it expires."""
    try:
        token = path.read_text(encoding="ascii").strip()
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        expires_at = float(claims["exp"])
    except OSError as error:
        raise ReadingFailed(
            f"the token file {path} cannot be read: {error.strerror}", hint="check who may read it"
        ) from None
    except (ValueError, KeyError, IndexError, TypeError):
        raise ReadingFailed(
            f"the token file {path} contains no usable token", hint="Kafka needs a JWT with the claim `exp`"
        ) from None
    if expires_at <= time.time():
        raise ReadingFailed(f"the token of {path} has expired", hint="check what renews it")
    return token, expires_at, str(claims.get("sub") or ""), dict(extensions)


def _of_aws(region: str) -> tuple[str, float, str, dict[str, str]]:
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
        # Without credentials, the signer stumbles over None (AttributeError).
        why = "there are no AWS credentials" if isinstance(error, AttributeError) else one_line(str(error))
        raise ReadingFailed(
            f"no token for MSK IAM on {socket.gethostname()}: {why}",
            hint="executors need AWS credentials of their own, such as the role of their machine",
        ) from None
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
"""Codes of messages that a reader passes over: librdkafka looks for its group's coordinator unasked."""
_MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
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
_LATE = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT})
_ADDRESSES = (
    "check that this account's network reaches the brokers' advertised addresses, and security.protocol"
)


def reading_failed(error: KafkaError | KafkaException, topic: str) -> ReadingFailed:
    """One line for an error of librdkafka's, and what can be done.

    Args:
        error: As a client gave or raised it.
        topic: What was being read.
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
            hint="kafkaform get topics lists the topics that this account can see",
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
    """A text without line breaks."""
    return " ".join(text.replace("\0", " ").split())


class Problems:
    """What librdkafka says beside its answers: a broker that is away, credentials that are refused."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None
        self._final: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Take an error; librdkafka calls this while its client is polled."""
        if error.code() in HARMLESS:
            return
        if error.code() in _FINAL:
            self._final = error
        # That all brokers are down says less than why the last one is.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._last is None:
            self._last = error

    def check(self, topic: str) -> None:
        """Raise ReadingFailed for a problem that does not pass by itself, such as a wrong password."""
        if self._final is not None:
            raise reading_failed(self._final, topic)

    def silent(self, topic: str, waited_s: float) -> ReadingFailed:
        """The error for records or answers that did not come, with the reason if librdkafka told any."""
        if self._last is not None:
            return reading_failed(self._last, topic)
        return ReadingFailed(
            f"Kafka sent nothing of topic {topic} within {waited_s:.0f} s",
            hint="try again; if the brokers are slow, read fewer records with --records",
        )


def connected(
    kind: Callable[[dict[str, Any]], T], kafka: Mapping[str, str], more: Mapping[str, Any] | None = None
) -> tuple[T, Problems]:
    """Make a client of librdkafka.

    Args:
        kind: Which one, such as `confluent_kafka.Consumer`.
        kafka: Properties by librdkafka's names, secrets among them.
        more: Options of this client, which go before those.

    Returns:
        The client, and what collects its problems.

    Raises:
        ReadingFailed: A property is not accepted, a file is missing, or there is no token.
    """
    problems = Problems()
    try:
        client = kind(
            {
                "client.id": GROUP_ID,
                "log.connection.close": False,
                **options(kafka),
                "error_cb": problems,
                "logger": _log,
                **(more or {}),
            }
        )
    except KafkaException as error:
        first = error.args[0] if error.args else None
        if isinstance(first, KafkaError) and first.code() in _CREDENTIALS:
            raise reading_failed(first, "") from None  # no token came within ten seconds
        why = one_line(first.str() if isinstance(first, KafkaError) else str(error))
        raise ReadingFailed(
            f"the client properties are not accepted: {why}",
            hint="names and values are librdkafka's: docs/clients.md lists them",
        ) from None
    return client, problems


# --- offsets ---------------------------------------------------------------------------------------


class OffsetReader:
    """Asks brokers for the offsets of partitions, where kafkaform's own clients are not at hand.

    A consumer asks: librdkafka's admin client ended processes by SIGSEGV when many of its requests for
    offsets were under way (a worker of ListOffsets locks the mutex of a query that another thread has freed).

    Args:
        kafka: Properties by librdkafka's names, secrets among them.

    Raises:
        ReadingFailed: They are not accepted.
    """

    def __init__(self, kafka: Mapping[str, str]) -> None:
        own = {
            "group.id": GROUP_ID,
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
        }
        self._kafka = kafka
        self._client, self._problems = connected(Consumer, kafka, own)

    def cluster_id(self) -> str | None:
        """Return the cluster's own id.

        Raises:
            ReadingFailed: Nobody answers, or the account is refused.
        """
        cluster: Any = self._ask(lambda timeout: self._client.list_topics(timeout=timeout), "")
        cluster_id: str | None = cluster.cluster_id
        return cluster_id

    def spans(self, topics: Iterable[str]) -> tuple[dict[str, list[Span]], dict[str, ReadingFailed]]:
        """Read the offsets of each topic's partitions, as a consumer sees them that reads committed records.

        Args:
            topics: Their names; none is created by asking.

        Returns:
            The spans of topics, without the bytes of their logs, which librdkafka cannot ask for; and why
            others have none.

        Raises:
            ReadingFailed: Nobody answers, or the account is refused.
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
            self._offsets(dict.fromkeys(partitions, end)) for end in (OFFSET_BEGINNING, OFFSET_END)
        )
        spans: dict[str, list[Span]] = {}
        for topic, number in partitions:
            start, end = starts[topic, number], ends[topic, number]
            errors = [offset.error for offset in (start, end) if offset.error is not None]
            if errors:
                failed.setdefault(topic, reading_failed(errors[0], topic))
                continue
            spans.setdefault(topic, []).append(Span(number, min(start.offset, end.offset), end.offset))
        return {topic: found for topic, found in spans.items() if topic not in failed}, failed

    def find_offsets(self, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], tuple[int, int]]:
        """Find the first records that are not older than times, as `arrivals.find_arrivals` takes it.

        librdkafka does not tell their times: where 0 is asked for, which is for the sake of these, the record
        is read. Elsewhere the time is the one that was asked for.

        Raises:
            ReadingFailed: Nobody answers, or the account is refused.
        """
        answers = self._offsets(times)
        for (topic, _), answer in answers.items():
            if answer.error is not None:
                raise reading_failed(answer.error, topic)
        offsets = {place: answer.offset for place, answer in answers.items() if answer.offset >= 0}
        read = self._read_times({place: offset for place, offset in offsets.items() if times[place] == 0})
        return {
            place: (offset, read.get(place, times[place]))
            for place, offset in offsets.items()
            if times[place] or place in read
        }

    def _read_times(self, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Read the time of the first record from each offset on (ms since 1970)."""
        times: dict[tuple[str, int], int] = {}
        if not places:
            return times
        self._client.assign([TopicPartition(*place, offset) for place, offset in places.items()])
        try:
            deadline = time.monotonic() + ANSWER_S
            while len(times) < len(places) and time.monotonic() < deadline:
                for message in self._client.consume(len(places), _FIRST_TURN_S):
                    topic, number = message.topic(), message.partition()
                    if message.error() is None and topic is not None and number is not None:
                        times.setdefault((topic, number), message.timestamp()[1])
                waiting = next((topic for topic, number in places if (topic, number) not in times), None)
                if waiting is not None:
                    self._problems.check(waiting)
            if len(times) < len(places):
                missing = next(topic for topic, number in places if (topic, number) not in times)
                raise self._problems.silent(missing, ANSWER_S)
        finally:
            self._client.unassign()
        return times

    def configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """Read the configs of topics that are in force; a topic whose configs may not be read is left out."""
        if not topics:
            return {}
        admin, _ = connected(AdminClient, self._kafka)
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        configs: dict[str, dict[str, str]] = {}
        for resource, future in admin.describe_configs(asked, request_timeout=ANSWER_S).items():
            try:
                entries = future.result()
            except KafkaException as error:
                _log.debug("the configs of %s: %s", resource.name, error)
                continue
            configs[resource.name] = {name: entry.value or "" for name, entry in entries.items()}
        return configs

    def _partitions(self, topic: str) -> list[int]:
        metadata = self._ask(lambda timeout: self._client.list_topics(topic, timeout=timeout), topic)
        described = metadata.topics[topic]
        if described.error is not None:
            raise reading_failed(described.error, topic)
        leaderless = sorted(number for number, part in described.partitions.items() if part.leader < 0)
        if leaderless:
            raise ReadingFailed(
                f"partition {leaderless[0]} of topic {topic} has no leader",
                hint="wait until its brokers are back",
            )
        return sorted(described.partitions)

    def _offsets(self, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], TopicPartition]:
        """Read the first offset of each partition that is not older than a time, or its log's start or end.

        The request is ListOffsets, in which OFFSET_BEGINNING and OFFSET_END are times with a meaning.
        """
        if not times:
            return {}
        topic = next(iter(times))[0]
        asked = [TopicPartition(name, number, time_ms) for (name, number), time_ms in times.items()]
        answer = self._ask(lambda timeout: self._client.offsets_for_times(asked, timeout=timeout), topic)
        return {(offset.topic, offset.partition): offset for offset in answer}

    def _ask(self, request: Callable[[float], T], topic: str) -> T:
        """Send a request in turns that get longer; one whose account is refused ends before the time is up.

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
                if _code(error) not in _LATE | _UNREACHABLE:
                    raise reading_failed(error, topic) from None
            waited_s = time.monotonic() - began
            if waited_s >= ANSWER_S:
                raise self._problems.silent(topic, ANSWER_S)
            turn_s = min(2 * turn_s, max(ANSWER_S - waited_s, _FIRST_TURN_S))
