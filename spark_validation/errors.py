"""What can go wrong between a command and Spark's answer, as one small tree.

    SkewError                 one line for the user, and an optional hint
    ├── SparkMissing          a Python package is not installed
    ├── SparkUnavailable      there is no session: Java, the master, its executors
    ├── ReadingFailed         Kafka said no: the topic, the account, the connection
    └── JobFailed             Spark's job ended otherwise

`translated` makes one of these of what Spark raises. One that a Python worker has raised comes back as the
text of a traceback, and is recognised by the name of its class. This package knows nothing of kafkaform: the
command line there translates these errors into its own.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_validation.configuration import hidden

if TYPE_CHECKING:
    from collections.abc import Iterable


_HINT = "hint: "


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
        if hint is not None:
            # So that it is in a traceback, which is all that comes back from a Python worker.
            self.add_note(f"{_HINT}{hint}")


class SparkMissing(SkewError):  # noqa: N818 - a state of the machine, not an accident
    """PySpark, or a package that it needs here, is not installed."""


class SparkUnavailable(SkewError):  # noqa: N818
    """No Spark session can be had."""


class ReadingFailed(SkewError):  # noqa: N818
    """Kafka refused to be read, or did not answer."""


class JobFailed(SkewError):  # noqa: N818
    """The job came to no result for another reason."""


_DEEPEST = 30
_LONGEST = 300

_MEMORY = "java.lang.OutOfMemoryError"
_CAUSE = re.compile(r"^(?:Caused by: )?([a-z]\w*(?:\.[\w$]+)+)(?:: (.*))?$", re.MULTILINE)
_PYTHON = "Traceback (most recent call last)"
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning)\b.*|\[[A-Z_]+\].*)$", re.MULTILINE)
_OURS = re.compile(rf"^{re.escape(__name__)}\.(\w+): (.*)(?:\n{_HINT}(.*))?$", re.MULTILINE)
_KINDS = {kind.__name__: kind for kind in (SparkMissing, SparkUnavailable, ReadingFailed, JobFailed)}
_DIED = re.compile(r"Python worker (exited unexpectedly|failed to connect back)")


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
    text = "\n".join([str(error), *(cause.message for cause in causes)])
    if ours := _OURS.search(text):
        name, message, hint = ours.groups()
        return _KINDS.get(name, JobFailed)(hidden(message, secrets), hint=hint)
    if any(_MEMORY in cause.names for cause in causes):
        return JobFailed(
            "Spark's Java ran out of memory", hint="give it more: --spark-conf spark.driver.memory=4g"
        )
    if _DIED.search(text):
        return JobFailed(
            "a Python worker of Spark ended unexpectedly, most likely for lack of memory",
            hint="run fewer tasks at a time (--master 'local[2]'), or give executors more memory"
            " (--spark-conf spark.executor.memoryOverhead=2g)",
        )
    if _PYTHON in text:
        return _of_python(text, secrets)
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
    lines = _PYTHON_ERROR.findall(text.partition(_PYTHON)[2])
    last = lines[-1] if lines else _first(text)
    version = ".".join(platform.python_version_tuple()[:2])
    return JobFailed(
        f"Python failed on Spark's executors: {hidden(last, secrets)[:_LONGEST]}",
        hint=f"executors need Python {version}.x with confluent-kafka, numpy, pandas and pyarrow:"
        " see spark.pyspark.python",
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
    return _KINDS.get(name or "", JobFailed)(message or "", hint=hint)
