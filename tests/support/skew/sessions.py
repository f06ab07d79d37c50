"""Spark sessions that do not start, and counts of a small topic in those that do."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_validation.job import report_progress
from spark_validation.key_counts import CountsLayout
from spark_validation.measure import CountedTopic, count_topics
from spark_validation.windows import Span, plan_windows

ROOT = Path(__file__).parents[3]
RECORDS = 6_000

# These run in processes of their own: the session of the `spark` fixture lives in this one.
STARTS = """
import json, sys
from pathlib import Path
from spark_validation import session
from spark_validation.errors import SkewError
from spark_validation.session import start
from spark_validation.configuration import SessionSettings
session._START_S["spark"] = 12.0
master, home, conf = sys.argv[1:]
home = Path(home) if home else None
settings = SessionSettings(master=master or None, java_home=home, conf=json.loads(conf))
try:
    with start(settings):
        print("started")
except SkewError as error:
    print(json.dumps([type(error).__name__, error.message, error.hint]))
"""


def start_refused(tmp_path: Path, *, master: str = "", home: Path | str = "", **conf: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", STARTS, master, str(home), json.dumps(conf)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert not list(tmp_path.glob("kafkaform-spark-*"))
    answer: list[str] = json.loads(done.stdout)
    assert "\n" not in answer[1]
    return answer


def count_topic(spark: SparkSession, topic: str, kafka: Mapping[str, str], on_progress: Any = None) -> Any:
    with report_progress(spark, on_progress):
        (found,) = count_topics(spark, [plan_topic(topic)], kafka, slots=2)
    return found


def plan_topic(topic: str) -> Any:
    """Plan a sample of a topic of two partitions."""
    plan = plan_windows([Span(number, 0, RECORDS // 2) for number in (0, 1)], records=80, seed=1)
    return CountedTopic(topic, plan, CountsLayout(2, plan.replicates, plan.weights, plan.read_whole))
