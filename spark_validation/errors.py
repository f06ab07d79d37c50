"""What can go wrong between a command and Spark's answer, as one small tree.

    SkewError                 one line for the user, and an optional hint
    ├── SparkMissing          a Python package is not installed
    ├── SparkUnavailable      there is no session: Java, the master, its executors
    ├── ReadingFailed         Kafka said no: the topic, the account, the connection
    └── JobFailed             Spark's job ended otherwise

This package knows nothing of kafkaform; kafkaform's command line translates these.
"""

from __future__ import annotations


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
