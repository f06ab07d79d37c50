"""How many tasks a session can run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_DEFAULT = 16


def slots(spark: SparkSession) -> int:
    """Task slots of a session.

    A Spark Connect client cannot ask for its server's, unless the server's configuration says them.
    """
    if is_connect(spark):
        return int(spark.conf.get("spark.default.parallelism", str(_CONNECT_DEFAULT)) or _CONNECT_DEFAULT)
    return max(1, spark.sparkContext.defaultParallelism)


def is_connect(spark: SparkSession) -> bool:
    """Whether the session's JVM is out of reach, behind Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
