"""Spark's and Kafka's exceptions as one line each."""

import sys
import traceback
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from spark_validation.errors import JobFailed, ReadingFailed, SkewError, SparkMissing, translate_error

PASSWORD = 'Tr0ub4dor "horse" battery'


def build_throwable(*names: str, message: str = "", cause: Any = None) -> Any:
    """A Java exception of a class, which has these superclasses."""
    kind: Any = None
    for name in ("java.lang.Object", *reversed(names)):
        kind = SimpleNamespace(getName=lambda name=name: name, getSuperclass=lambda above=kind: above)
    return SimpleNamespace(getClass=lambda: kind, getMessage=lambda: message, getCause=lambda: cause)


class FromJavaError(Exception):
    def __init__(self, java_exception: Any) -> None:
        super().__init__("An error occurred while calling o1.collect")
        self.java_exception = java_exception


def text_of(error: SkewError) -> str:
    """The message and the hint, whatever Python runs this test."""
    version = ".".join(map(str, sys.version_info[:2]))
    return f"{error.message}\n{error.hint}\n".replace(f"Python {version}.x", "Python 3.N.x")


def test_unknown_failure_has_innermost_cause_without_secrets(golden: SnapshotAssertion) -> None:
    inner = build_throwable("java.io.IOException", message=f"disk full at {PASSWORD}\n\tat x.y(z)")
    error = FromJavaError(
        build_throwable("org.apache.spark.SparkException", message="Job aborted", cause=inner)
    )
    found = translate_error(error, topic="t", secrets={PASSWORD})
    assert isinstance(found, JobFailed)
    assert text_of(found) == golden(name="unknown_failure.txt")


def traceback_of(error: BaseException) -> str:
    """The text that a Python worker sends."""
    try:
        raise error
    except type(error):
        return traceback.format_exc()


def from_worker(text: str, version: str) -> FromJavaError | RuntimeError:
    """Build the exception of PySpark 4.0.0 and 4.3.0, of a JVM of its own and of Spark Connect."""
    match version:
        case "4.0":
            return RuntimeError(f"\n  An exception was thrown from the Python worker. Please see…\n{text}")
        case "4.3":
            return RuntimeError(
                f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker: {text} SQLSTATE: 38000"
            )
        case "data source":
            return RuntimeError(f"[PYTHON_DATA_SOURCE_ERROR] Failed to plan: {text} SQLSTATE: 38000")
        case _:
            inner = build_throwable("org.apache.spark.api.python.PythonException", message=text)
            outer = build_throwable("org.apache.spark.SparkException", message="aborted", cause=inner)
            return FromJavaError(outer)


@pytest.mark.parametrize("version", ["4.0", "4.3", "data source", "java"])
def test_worker_error_text_is_restored(version: str) -> None:
    error = ReadingFailed(f"no broker: {PASSWORD}", hint="check the addresses")
    found = translate_error(from_worker(traceback_of(error), version), topic="t", secrets={PASSWORD})
    assert isinstance(found, ReadingFailed)
    assert (found.message, found.hint) == ("no broker: [hidden]", "check the addresses")
    bare = translate_error(from_worker(traceback_of(JobFailed("no room")), version), topic="t")
    assert isinstance(bare, JobFailed)
    assert (bare.message, bare.hint) == ("no room", None)


@pytest.mark.parametrize("version", ["4.0", "4.3", "data source", "java"])
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("none", "python_failed"),
        ("numpy", "without_numpy"),
        ("confluent_kafka.cimpl", "without_confluent-kafka"),
    ],
)
def test_module_missing_on_executors_is_named(
    version: str, module: str, name: str, golden: SnapshotAssertion
) -> None:
    text = traceback_of(ModuleNotFoundError(f"No module named '{module}'"))
    found = translate_error(from_worker(text, version), topic="t")
    assert isinstance(found, SparkMissing) is name.startswith("without_")
    assert text_of(found) == golden(name=f"{name}.txt")


def test_python_missing_on_executors_is_named(golden: SnapshotAssertion) -> None:
    message = 'Cannot run program "/opt/none": error=2, No such file or directory'
    found = translate_error(FromJavaError(build_throwable("java.io.IOException", message=message)), topic="t")
    assert text_of(found) == golden(name="python_missing.txt")


def test_killed_worker_is_reported_with_likely_reason() -> None:
    died = build_throwable(
        "org.apache.spark.SparkException",
        message="Python worker exited unexpectedly (crashed).",
        cause=build_throwable("java.io.EOFException"),
    )
    found = translate_error(FromJavaError(died), topic="t")
    assert "for lack of memory" in found.message
    assert "--master" in str(found.hint)


def test_error_is_classified_by_class_not_text() -> None:
    words = "java.lang.OutOfMemoryError: Java heap space"
    error = translate_error(
        FromJavaError(build_throwable("java.lang.IllegalStateException", message=words)), topic="t"
    )
    assert error.message == f"Spark could not count topic t: IllegalStateException: {words}"
    found = translate_error(FromJavaError(build_throwable("x.Mine", "java.lang.OutOfMemoryError")), topic="t")
    assert found.message == "Spark's Java ran out of memory"


class FromConnectError(Exception):
    def getStackTrace(self) -> str:  # noqa: N802 - PySpark's
        return (
            "java.util.concurrent.ExecutionException\n"
            "\tat java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)\n"
            "Caused by: java.lang.OutOfMemoryError: Java heap space\n"
            "\tat a.b.c(D.java:1)"
        )


def test_spark_connect_error_is_classified_by_class() -> None:
    found = translate_error(FromConnectError(), topic="t")
    assert found.message == "Spark's Java ran out of memory"
