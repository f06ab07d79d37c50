"""Waiting for a cluster to give something to work with."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_validation.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 60.0
_PAUSE_S = 0.2


def wait_for_executors(spark: SparkSession) -> None:
    """Wait for a first executor; where they come and go with the work there is nothing to wait for.

    Raises:
        SparkUnavailable: None came.
    """
    context = spark.sparkContext
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    tracker = context._jsc.sc().statusTracker()  # noqa: SLF001 - PySpark's own tracker lacks executors
    deadline = time.monotonic() + PATIENCE_S
    # The driver counts as one.
    while len(tracker.getExecutorInfos()) < 2:
        if time.monotonic() > deadline:
            raise SparkUnavailable(
                f"no executor came from {context.master} within {PATIENCE_S:.0f} s",
                hint="see whether its workers are alive and have cores and memory left"
                " (--spark-conf spark.executor.memory=512m asks for less), and whether they reach this"
                " machine (--spark-conf spark.driver.host=ADDRESS)",
            )
        time.sleep(_PAUSE_S)
