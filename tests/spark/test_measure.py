"""Counting by Spark, in however many reducers."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from spark_validation import measure
from spark_validation.key_counts import CountsLayout
from spark_validation.measure import count_keys
from tests.support.skew_records import Record, assert_same, counted
from tests.unit.spark_validation.test_rows import assert_same_counts

LAYOUT = CountsLayout(3, 2, (1.0, 2.0, 1.0), (True, False, True), (3, 6))
SCHEMA = "partition int, replicate int, key binary, size long, at long"


def test_many_reducers_count_what_few_do_and_so_do_grouped_records(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = random.Random(3)
    records = [
        Record(place.randrange(3), place.randrange(2), b"k%d" % place.randrange(40), place.randrange(9), at)
        for at in range(400)
    ]
    frame = spark.createDataFrame([tuple(record) for record in records], SCHEMA)
    truth = counted(records, LAYOUT)
    assert_same(count_keys(frame, LAYOUT, reducers=2), truth)
    monkeypatch.setattr(measure, "MOST_COLLECTED", 3)  # as each reducer costs Python a tenth of a second
    assert_same(count_keys(frame, LAYOUT, reducers=4), truth)
    assert_same_counts(count_keys(frame, LAYOUT, reducers=2, group=True), truth)
