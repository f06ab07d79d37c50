"""Reading a topic whole with Spark against one consumer; samples of a short and a long topic; many keys.

Four questions, each with its answer as a ratio within one run:

- whole: records per second of `kafkaform skew --full` against one confluent-kafka consumer that counts
  records by key and partition. The consumer has its fetch and queue sizes raised (with its defaults it is
  several times slower), and takes one message a call, or 10,000. Spark's first round is its cold one.
- sample: seconds of the default sample of a long topic over those of a short one; whole commands, with
  Spark's start.
- cores: the whole read with one core and with two.
- keys: peak memory of the driver (Python, and the heap of its JVM is bounded) with few and with many keys.

Medians are taken; the rounds of samples alternate between what is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.rounds import timed
from kafkaform.devcluster.cluster import DevCluster

PARTITIONS = 12
VALUE = b"x" * 188

CONSUMER = """
import json, sys, time
from confluent_kafka import Consumer, TopicPartition
address, topic, partitions, records, batch = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
consumer = Consumer({
    "bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False,
    "max.partition.fetch.bytes": 16 * 2**20, "fetch.max.bytes": 64 * 2**20,
    "queued.max.messages.kbytes": 2**20, "queued.min.messages": 1_000_000,
})
consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
began, seen, counts = time.perf_counter(), 0, {}
while seen < records:
    messages = consumer.consume(batch, 1.0) if batch > 1 else [m for m in [consumer.poll(1.0)] if m]
    for message in messages:
        key = message.partition(), message.key()
        counts[key] = counts.get(key, 0) + 1
    seen += len(messages)
print(json.dumps({"seconds": time.perf_counter() - began, "keys": len(counts)}))
"""

WHOLE = """
import json, os, sys, time
from spark_validation import session
from spark_validation.job import JobSettings, TopicRequest, run_topics
from spark_validation.results import SkewLimits
from spark_validation.windows import Span
address, topic, ends, rounds = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
spans = [Span(number, 0, end) for number, end in enumerate(ends)]
with session.start(session.SessionSettings(full=True)) as spark:
    for _ in range(rounds):
        began = time.perf_counter()
        request = TopicRequest(topic, spans, SkewLimits())
        result = run_topics(spark, [request], {"bootstrap.servers": address}, JobSettings(full=True))[topic]
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "keys": result.sampled_distinct_keys}), flush=True)
"""


def main() -> int:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--long", type=int, default=30_000_000)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, object] = {}
    with (
        tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
        DevCluster.start(Path(folder) / "kafka", heap_mb=2048) as kafka,
    ):
        address = kafka.bootstrap_servers
        ends = produce(address, "short", options.records, keys=200_000)
        found["whole"] = whole(address, ends, options.rounds)
        found["cores"] = cores(address, ends)
        produce(address, "long", options.long, keys=200_000)
        found["sample"] = sample(address, options.rounds)
        produce(address, "keys", max(options.records, options.keys), keys=0)
        found["keys"] = keys(address)
    for question, answer in found.items():
        print(question, json.dumps(answer))
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "skew.json").write_text(json.dumps(found, indent=2))
    return 0


def produce(address: str, topic: str, records: int, *, keys: int) -> list[int]:
    """Write a topic of 200-byte records; the records of each partition. Without `keys` each has its own."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(30)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "partitioner": "murmur2_random",
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    random, ends = np.random.default_rng(1), [0] * PARTITIONS

    def written(error: object, message: object) -> None:
        if error is not None:
            sys.exit(f"bench: a record was not written: {error}")
        ends[message.partition()] += 1  # type: ignore[attr-defined]

    for first in range(0, records, 500_000):
        count = min(500_000, records - first)
        drawn = random.integers(0, keys, count) if keys else np.arange(first, first + count)
        for key in drawn.tolist():
            while True:
                try:
                    producer.produce(topic, VALUE, b"customer-%d" % key, on_delivery=written)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    producer.flush(120)
    return ends


def whole(address: str, ends: list[int], rounds: int) -> dict[str, float]:
    """Medians of rounds in one session; the first of them is the cold one."""
    spark = subprocess.Popen(
        [sys.executable, "-c", WHOLE, address, "short", json.dumps(ends), str(rounds + 1)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert spark.stdout is not None
    cold = json.loads(spark.stdout.readline())
    warm = [json.loads(line)["seconds"] for line in spark.stdout]
    spark.wait()
    one = statistics.median(consumed(address, ends, 1) for _ in range(rounds))
    many = statistics.median(consumed(address, ends, 10_000) for _ in range(rounds))
    spark_s = statistics.median(warm)
    return {
        "records": sum(ends),
        "spark_s": spark_s,
        "spark_cold_s": cold["seconds"],
        "consumer_one_s": one,
        "consumer_many_s": many,
        "ratio_one": one / spark_s,
        "ratio_many": many / spark_s,
    }


def consumed(address: str, ends: list[int], batch: int) -> float:
    """Seconds of one consumer that takes so many messages a call."""
    command = [sys.executable, "-c", CONSUMER, address, "short", str(PARTITIONS), str(sum(ends)), str(batch)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout)["seconds"])


def cores(address: str, ends: list[int]) -> dict[str, float]:
    """One core against all, second rounds."""
    found = {}
    for count in (1, 2):
        lines = subprocess.run(
            [sys.executable, "-c", WHOLE, address, "short", json.dumps(ends), "3"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            preexec_fn=lambda count=count: os.sched_setaffinity(0, range(count)),
        ).stdout.splitlines()
        found[f"{count}_s"] = statistics.median(json.loads(line)["seconds"] for line in lines[1:])
    return {**found, "ratio": found["1_s"] / found["2_s"]}


def skew(address: str, topic: str, *more: str) -> list[str]:
    """The command line."""
    command = [sys.executable, "-m", "kafkaform", "skew", topic, "--bootstrap-server", address]
    return [*command, "--seed", "1", "--out", os.devnull, *more]


def sample(address: str, rounds: int) -> dict[str, float]:
    """Whole commands: the default sample of a short and of a long topic."""
    timed(skew(address, "short"))
    short, long = zip(
        *((timed(skew(address, "short"))[0], timed(skew(address, "long"))[0]) for _ in range(rounds)),
        strict=True,
    )
    short_s, long_s = statistics.median(short), statistics.median(long)
    return {"short_s": short_s, "long_s": long_s, "ratio": long_s / short_s}


def keys(address: str) -> dict[str, float]:
    """Peak memory of the Python driver with 200,000 keys, and with one key for each record."""
    few, many = timed(skew(address, "short", "--full")), timed(skew(address, "keys", "--full"))
    return {
        "few_s": few[0],
        "few_mb": few[1],
        "many_s": many[0],
        "many_mb": many[1],
        "ratio": many[1] / few[1],
    }


if __name__ == "__main__":
    began = time.perf_counter()
    code = main()
    print(f"in {time.perf_counter() - began:.0f} s")
    sys.exit(code)
