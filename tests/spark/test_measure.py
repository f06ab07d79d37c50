"""Counting by Spark, in however many reducers."""

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from spark_validation import measure
from spark_validation.key_counts import CountsLayout
from spark_validation.measure import count_records
from tests.support.skew.records import Record, assert_same, tally_records

LAYOUT = CountsLayout(3, 2, (1.0, 2.0, 1.0), (True, False, True), (3, 6))
SCHEMA = "partition int, replicate int, key binary, size long, at long"


def test_record_counts_are_equal_for_any_reducers(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = random.Random(3)
    records = [
        Record(place.randrange(3), place.randrange(2), b"k%d" % place.randrange(40), place.randrange(9), at)
        for at in range(400)
    ]
    frame = spark.createDataFrame([tuple(record) for record in records], SCHEMA)
    truth = tally_records(records, LAYOUT)
    assert_same(count_records(frame, LAYOUT, count=400, slots=2), truth)
    monkeypatch.setattr(measure, "MIN_RECORDS_PER_REDUCER", 100)
    assert measure.divide([400], 4).count == 4
    monkeypatch.setattr(
        measure, "MAX_COLLECTED_COUNTS", 3
    )  # as each reducer costs Python a tenth of a second
    assert_same(count_records(frame, LAYOUT, count=400, slots=4), truth)


@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_spark_labels_hash_to_separate_partitions(spark: SparkSession, count: int) -> None:
    labels = spark.createDataFrame([(label,) for label in measure.spark_labels(count)], "label int")
    places = labels.select(F.pmod(F.hash("label"), F.lit(count))).collect()
    assert [place for (place,) in places] == list(range(count))
