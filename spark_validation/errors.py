"""The errors between a command and Spark's answer, as one small tree.

    SkewError                 one line for the user, and an optional hint
    ├── SparkMissing          a Python package is not installed
    ├── SparkUnavailable      there is no session: Java, the master, its executors
    ├── ReadingFailed         Kafka cannot be read: the topic, the account, the connection
    └── JobFailed             Spark's job failed otherwise

`translate_error` turns Spark's exceptions into these. One that a Python worker raised comes back as the text
of a traceback, and is recognised by the name of its class. This package does not depend on kafkaform: the
command line there translates these errors into its own.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_validation.configuration import hide_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_HINT = "hint: "


class SkewError(Exception):
    """The base class of all errors of this package.

    Args:
        message: What is wrong, in one line.
        hint: What the user can do, in one line.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint is not None:
            # A Python worker returns only a traceback, which includes notes.
            self.add_note(f"{_HINT}{hint}")


class SparkMissing(SkewError):  # noqa: N818 - a state of the machine, not an accident
    """PySpark, or a package that it needs here, is not installed."""


class SparkUnavailable(SkewError):  # noqa: N818
    """No Spark session could be started."""


class ReadingFailed(SkewError):  # noqa: N818
    """Kafka denied access, or did not answer."""


class JobFailed(SkewError):  # noqa: N818
    """The job failed for another reason."""


_DEEPEST = 30
_MAX_QUOTED_LENGTH = 300

_MEMORY = "java.lang.OutOfMemoryError"
_CAUSE = re.compile(r"^(?:Caused by: )?([a-z]\w*(?:\.[\w$]+)+)(?:: (.*))?$", re.MULTILINE)
_PYTHON = "Traceback (most recent call last)"
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning)\b.*|\[[A-Z_]+\].*)$", re.MULTILINE)
# The last line of a traceback of Python has the name of the module before that of the class.
_OURS = re.compile(rf"^{re.escape(__name__)}\.(\w+): (.*)(?:\n{_HINT}(.*))?$", re.MULTILINE)
_KINDS = {kind.__name__: kind for kind in (SparkMissing, SparkUnavailable, ReadingFailed, JobFailed)}
_NO_MODULE = re.compile(
    r"^ModuleNotFoundError: No module named '(confluent_kafka|numpy|pandas|pyarrow)\b", re.MULTILINE
)
_NO_PROGRAM = re.compile(r'Cannot run program "([^"\n]+)"')
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
        return f"{short}: {first[:_MAX_QUOTED_LENGTH]}" if first else short


def translate_error(error: BaseException, *, topic: str, secrets: Iterable[str] = ()) -> SkewError:
    """Return the one-line error for an exception of Spark's.

    Args:
        error: The exception of PySpark or Py4J; a `SkewError` is returned as it is.
        topic: The topic that was read.
        secrets: The values of `configuration.secrets`, which are never repeated.
    """
    if isinstance(error, SkewError):
        return error
    causes = java_causes(error)
    text = "\n".join([str(error), *(cause.message for cause in causes)])
    if ours := _OURS.search(text):
        name, message, hint = ours.groups()
        return _KINDS.get(name, JobFailed)(hide_values(message, secrets), hint=hint)
    # By the classes that it extends: Spark throws one of its own, SparkOutOfMemoryError.
    if any(_MEMORY in cause.names for cause in causes):
        return JobFailed(
            "Spark's Java ran out of memory", hint="give it more: `--spark-conf spark.driver.memory=4g`"
        )
    # The kernel's out-of-memory killer leaves a worker no time for an error of its own.
    if _DIED.search(text):
        return JobFailed(
            "a Python worker of Spark ended unexpectedly, most likely for lack of memory",
            hint="run fewer tasks at a time (`--master 'local[2]'`), or give executors more memory"
            " (`--spark-conf spark.executor.memoryOverhead=2g`)",
        )
    if _PYTHON in text:
        return _translate_python_error(text, secrets)
    if program := _NO_PROGRAM.search(text):
        return JobFailed(
            f"Spark's executors cannot run {hide_values(program[1], secrets)}", hint=_executor_hint()
        )
    line = causes[-1].line if causes else f"{type(error).__name__}: {_first_text_line(str(error))}"
    return JobFailed(
        f"Spark could not count topic {topic}: {hide_values(line, secrets)}", hint="--debug shows more"
    )


def java_causes(error: BaseException) -> list[JavaCause]:
    """Return the Java exceptions behind a Python one, outermost first; empty if there are none."""
    if hasattr(error, "getStackTrace") and isinstance(trace := error.getStackTrace(), str):
        # Spark Connect sends names and messages, one exception a line, between the stack frames.
        return [JavaCause((name,), message) for name, message in _CAUSE.findall(trace)][:_DEEPEST]
    # Py4J keeps the Java exception in the first attribute, PySpark's translated exceptions in the second.
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    causes: list[JavaCause] = []
    while java is not None and len(causes) < _DEEPEST:
        causes.append(JavaCause(_names(java.getClass()), java.getMessage() or ""))
        java = java.getCause()
    return causes


def _names(kind: Any) -> tuple[str, ...]:
    names = []
    while kind is not None and kind.getName() != "java.lang.Object":
        names.append(kind.getName())
        kind = kind.getSuperclass()
    return tuple(names)


def _translate_python_error(text: str, secrets: Iterable[str]) -> SkewError:
    if missing := _NO_MODULE.findall(text):
        return make_package_error(missing[-1])
    lines = _PYTHON_ERROR.findall(text.partition(_PYTHON)[2])
    last = lines[-1] if lines else _first_text_line(text)
    return JobFailed(
        f"Python failed on Spark's executors: {hide_values(last, secrets)[:_MAX_QUOTED_LENGTH]}",
        hint=_executor_hint(),
    )


def find_changed_topics(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, ReadingFailed]:
    """Return the errors of topics that have another id than before, from the ids as far as they are known."""
    return {
        topic: ReadingFailed(
            f"topic {topic} was deleted and made again while it was being read", hint="run the command again"
        )
        for topic, topic_id in after.items()
        if before.get(topic, topic_id) != topic_id
    }


def make_package_error(package: str, host: str | None = None) -> SparkMissing:
    """Return the error for a package that the Python of executors lacks.

    Args:
        package: The name that is imported.
        host: The executor's machine; None if it is not known.
    """
    where = "Spark's executors" if host is None else f"the Spark executor on {host}"
    return SparkMissing(f"the Python of {where} lacks {package.replace('_', '-')}", hint=_executor_hint())


def _executor_hint() -> str:
    version = ".".join(platform.python_version_tuple()[:2])
    return (
        f"executors need Python {version}.x with confluent-kafka, numpy, pandas and pyarrow: install them"
        " there, or set spark.pyspark.python to a Python that has them"
    )


def _first_text_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_MAX_QUOTED_LENGTH]


def to_parts(error: SkewError) -> list[str | None]:
    """Return an error as JSON values: its class, message and hint."""
    return [type(error).__name__, error.message, error.hint]


def from_parts(parts: list[str | None]) -> SkewError:
    """Return the error that `to_parts` described."""
    name, message, hint = parts
    return _KINDS.get(name or "", JobFailed)(message or "", hint=hint)
