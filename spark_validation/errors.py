"""What can go wrong between a command and Spark's answer, as one small tree.

    SkewError                 one line for the user, and an optional hint
    ├── SparkMissing          a Python package is not installed
    ├── SparkUnavailable      there is no session: Java, the master, its executors
    ├── ReadingFailed         Kafka said no: the topic, the account, the connection
    └── JobFailed             Spark's job ended otherwise

`translated` makes one of these of what Spark and Kafka raise, by the class names in the chain of causes. This
package knows nothing of kafkaform; kafkaform's command line translates these errors into its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_validation.configuration import hidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class SkewError(Exception):
    """The root.

    Args:
        message: What is wrong, in one line.
        hint: What the user can do, in one line.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class SparkMissing(SkewError):  # noqa: N818 - a state of the machine, not an accident
    """PySpark, or a package that it needs here, is not installed."""


class SparkUnavailable(SkewError):  # noqa: N818
    """No Spark session can be had."""


class ReadingFailed(SkewError):  # noqa: N818
    """Kafka refused to be read, or did not answer."""


class JobFailed(SkewError):  # noqa: N818
    """The job came to no result for another reason."""


GROUP_ID = "kafkaform-skew"
"""What its name starts with. It never commits, so no broker knows it."""

_SALT = os.urandom(16)


def group_id(options: Mapping[str, str]) -> str:
    """One group for all windows that are read with the same properties, and another for others.

    Spark then keeps one consumer for each partition, instead of one for each window. Consumers of one group
    must be made alike: where they are not, Spark's error prints every property of both, passwords too.

    Args:
        options: What consumers are made with; secrets among them, which is why the name is salted.
    """
    text = json.dumps(sorted(options.items())).encode()
    return f"{GROUP_ID}-{hmac.new(_SALT, text, hashlib.sha256).hexdigest()[:12]}"


_KAFKA = "org.apache.kafka.common.errors"
_DEEPEST = 30
_LONGEST = 300

_REFUSALS: dict[str, tuple[str, str]] = {
    f"{_KAFKA}.TopicAuthorizationException": (
        "this account may not read topic {topic}",
        "grant it READ and DESCRIBE on the topic",
    ),
    f"{_KAFKA}.GroupAuthorizationException": (
        f"this account may not use the consumer group {GROUP_ID}",
        f"grant it READ on groups whose name starts with {GROUP_ID}",
    ),
    f"{_KAFKA}.ClusterAuthorizationException": (
        "this account may not describe the cluster",
        "grant it DESCRIBE on the cluster",
    ),
    f"{_KAFKA}.TransactionalIdAuthorizationException": (
        "this account may not read topic {topic}",
        "grant it READ and DESCRIBE on the topic",
    ),
    f"{_KAFKA}.UnknownTopicOrPartitionException": (
        "topic {topic} does not exist, or was deleted while it was being read",
        "kafkaform get topics lists the topics that this account can see",
    ),
    f"{_KAFKA}.SaslAuthenticationException": (
        "the broker rejected the credentials that Spark uses",
        "check sasl.mechanism, the user name and the password",
    ),
    f"{_KAFKA}.SslAuthenticationException": (
        "the TLS handshake between Spark and the broker failed",
        "check that the executors can read the certificates, and that these match the broker's host name",
    ),
    "javax.security.auth.login.LoginException": (
        "Spark could not log in to Kafka: the login module failed",
        "check sasl.mechanism and its properties",
    ),
    f"{_KAFKA}.TimeoutException": (
        "Kafka did not answer Spark in time",
        "check that Spark's executors can reach the brokers' advertised addresses",
    ),
    "java.util.concurrent.TimeoutException": (
        "Kafka sent Spark no records of topic {topic} in time",
        "try again; if the brokers are slow, read fewer records with --records",
    ),
    "org.apache.kafka.common.config.ConfigException": (
        "Kafka's Java client rejects a client property",
        "check the names and values of the cluster's client properties",
    ),
    "java.lang.OutOfMemoryError": (
        "Spark's Java ran out of memory",
        "give it more: --spark-conf spark.driver.memory=4g",
    ),
    "java.lang.NoClassDefFoundError": (
        "Spark's Kafka connector is incomplete or has the wrong version",
        "let spark-submit fetch it: --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    ),
}
_READING = (_KAFKA, "javax.security", "org.apache.kafka", "java.util.concurrent.TimeoutException")
_CAUSE = re.compile(r"^(?:Caused by: )?([a-z]\w*(?:\.[\w$]+)+)(?:: (.*))?$", re.MULTILINE)
_PYTHON = "org.apache.spark.api.python.PythonException"
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning)\b.*|\[[A-Z_]+\].*)$", re.MULTILINE)
_PACKAGES = "executors need Python {version}.x with numpy, pandas and pyarrow: see spark.pyspark.python"


@dataclass(frozen=True, slots=True)
class JavaCause:
    """One exception of a chain: the names of its class and of those it extends, and its message."""

    names: tuple[str, ...]
    message: str

    @property
    def line(self) -> str:
        """Its class and the first line of its message."""
        first = next((line.strip() for line in self.message.splitlines() if line.strip()), "")
        short = self.names[0].rpartition(".")[2]
        return f"{short}: {first[:_LONGEST]}" if first else short


def translated(error: BaseException, *, topic: str, secrets: Iterable[str] = ()) -> SkewError:
    """One line for what Spark raised.

    Args:
        error: From PySpark or Py4J; a `SkewError` is returned as it is.
        topic: What was being read.
        secrets: Of `configuration.secrets`: never repeated.
    """
    if isinstance(error, SkewError):
        return error
    causes = java_causes(error)
    # What is innermost says most; what Kafka says, says more than a timeout around it.
    for cause in reversed(causes):
        for name in cause.names:
            if name in _REFUSALS:
                message, hint = _REFUSALS[name]
                kind = ReadingFailed if name.startswith(_READING) else JobFailed
                return kind(message.format(topic=topic), hint=hint)
    for cause in causes:
        if _PYTHON in cause.names:
            return _of_python(cause.message, secrets)
    if type(error).__name__ == "PythonException":
        return _of_python(str(error), secrets)
    line = causes[-1].line if causes else _first_line(error)
    return JobFailed(
        f"Spark could not count topic {topic}: {hidden(line, secrets)}", hint="--debug shows more"
    )


def java_causes(error: BaseException) -> list[JavaCause]:
    """The Java exceptions behind a Python one, outermost first; none where there is no Java behind it."""
    if hasattr(error, "getStackTrace") and isinstance(trace := error.getStackTrace(), str):
        # Spark Connect sends names and messages, one exception a line, between the places.
        return [JavaCause((name,), message) for name, message in _CAUSE.findall(trace)][:_DEEPEST]
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found: list[JavaCause] = []
    while java is not None and len(found) < _DEEPEST:
        found.append(JavaCause(_names(java.getClass()), java.getMessage() or ""))
        java = java.getCause()
    return found


def _names(kind: Any) -> tuple[str, ...]:
    names = []
    while kind is not None and kind.getName() != "java.lang.Object":
        names.append(kind.getName())
        kind = kind.getSuperclass()
    return tuple(names)


def _of_python(text: str, secrets: Iterable[str]) -> JobFailed:
    import platform

    lines = _PYTHON_ERROR.findall(text)
    last = lines[-1] if lines else _first(text)
    version = ".".join(platform.python_version_tuple()[:2])
    return JobFailed(
        f"Python failed on Spark's executors: {hidden(last, secrets)[:_LONGEST]}",
        hint=_PACKAGES.format(version=version),
    )


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {_first(str(error))}"


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_LONGEST]


def to_parts(error: SkewError) -> list[str | None]:
    """An error as what JSON can say of it: its kind, message and hint."""
    return [type(error).__name__, error.message, error.hint]


def of_parts(parts: list[str | None]) -> SkewError:
    """The error of `to_parts`."""
    name, message, hint = parts
    kind = next((kind for kind in (SparkMissing, ReadingFailed) if kind.__name__ == name), JobFailed)
    return kind(message or "", hint=hint)
