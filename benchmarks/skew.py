"""Reading topics with Spark against one consumer; samples of short, long, wide and many topics; many keys.

Each question has its answer as a ratio within one run, and processor seconds beside it:

- whole: seconds of one confluent-kafka consumer over those of a whole read in a warm session. The consumer
  takes 10,000 messages a call, counts records by key and partition, and has its fetch and queue sizes raised
  (with its defaults it is several times slower). Rounds alternate; the first one of Spark is its cold one.
- cold: the whole command `kafkaform skew --records all` against the consumer's whole process.
- cores: the whole read with one core and with two.
- sample: the default sample of a long topic over that of a short one, as whole commands; of a topic of 1,000
  partitions; and of 1,000 small topics at once.
- start: whole commands with an archive of Spark's classes against those without one: a small sample, the
  default one, and all records; and all records with it against the consumer's whole process.
- keys: peak memory of the driver (Python; the heap of its JVM is bounded) with few and with many keys.
- partitions: the same for topics of 1,000, 5,000 and 10,000 partitions with equally many records, all of them
  read; and the CPU seconds of twice the partitions over those of half.

Medians are taken. The broker shares the machine, and compiles as brokers do in production. Beside each answer
is the load average when it was found: seconds hold for a quiet machine only, ratios for others as well.
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
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from benchmarks.rounds import Figures, measure_memory, measure_process, summarise_runs
from kafkaform.devcluster.cluster import ClusterSpec, DevCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

QUESTIONS = ("whole", "cold", "start", "cores", "wide", "many", "sample", "keys", "partitions")
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
from spark_validation.job import TopicRequest, run_topics
from spark_validation.options import JobSettings
from spark_validation.results import SkewLimits
from spark_validation.windows import Span
address, topic, ends = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
spans = [Span(number, 0, end) for number, end in enumerate(ends)]
with session.start(session.SessionSettings()) as spark:
    for _ in sys.stdin:
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
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, help="answer these questions")
    options = parser.parse_args()
    found: dict[str, object] = {}
    with (
        tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
        DevCluster.start(Path(folder) / "kafka", ClusterSpec(heap_mb=2048, full_jit=True)) as kafka,
    ):
        address = kafka.bootstrap_servers
        create(address, {"short": PARTITIONS, "long": PARTITIONS, "keys": PARTITIONS, "wide": 1_000})
        ends = produce(address, "short", options.records, keys=200_000)
        questions: dict[str, Callable[[], dict[str, float]]] = {
            "whole": lambda: whole(address, ends, options.rounds),
            "cold": lambda: cold(address, ends, options.rounds),
            "start": lambda: start(address, ends, options.rounds, Path(folder) / "cache"),
            "cores": lambda: cores(address, ends),
            "wide": lambda: wide(address, options.records // 3),
            "many": lambda: many(address, options.topics),
            "sample": lambda: sample(address, options.rounds, options.long),
            "keys": lambda: keys(address, max(options.records, options.keys)),
            "partitions": lambda: partitions(address, options.records // 3),
        }
        for question in options.only or questions:
            answer(found, question, questions[question]())
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "skew.json").write_text(json.dumps(found, indent=2))
    return 0


def answer(found: dict[str, object], question: str, figures: dict[str, float]) -> None:
    """Print an answer, and keep it."""
    figures = {**figures, "load": os.getloadavg()[0]}
    found[question] = figures
    rounded = {name: round(value, 2) for name, value in figures.items()}
    print(question, json.dumps(rounded), flush=True)


def figures(taken: Figures) -> dict[str, float]:
    """Return the resources that a process used."""
    return {"seconds": taken.seconds, "cpu_s": taken.cpu, "peak_mb": taken.peak}


def create(address: str, topics: Mapping[str, int]) -> None:
    """Create topics with so many partitions."""
    admin = AdminClient({"bootstrap.servers": address})
    # A controller refuses what makes 10,000 records of metadata at once.
    asked = [NewTopic(name, min(count, 5_000), 1) for name, count in topics.items()]
    extra = [NewPartitions(name, count) for name, count in topics.items() if count > 5_000]
    for first in range(0, len(asked), 250):
        for future in admin.create_topics(asked[first : first + 250]).values():
            future.result(60)
    for future in admin.create_partitions(extra).values() if extra else ():
        future.result(60)
    # Or the producer places records in those that metadata shows.
    while any(len(admin.list_topics(name, 60).topics[name].partitions) < topics[name] for name in topics):
        time.sleep(0.1)


def producer_of(address: str) -> Producer:
    """A producer made for speed."""
    return Producer(
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


def produce(
    address: str, topic: str, records: int, *, keys: int, producer: Producer | None = None
) -> list[int]:
    """Write 200-byte records; the records of each partition. Without `keys` each has a key of its own."""
    producer = producer or producer_of(address)
    random, ends = np.random.default_rng(1), Counter[int]()

    def store_offset(error: object, message: Any) -> None:
        if error is not None:
            sys.exit(f"bench: a record was not written: {error}")
        ends[message.partition()] += 1

    for first in range(0, records, 500_000):
        count = min(500_000, records - first)
        drawn = random.integers(0, keys, count) if keys else np.arange(first, first + count)
        for key in drawn.tolist():
            while True:
                try:
                    producer.produce(topic, VALUE, b"customer-%d" % key, on_delivery=store_offset)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    producer.flush(120)
    return [ends[number] for number in range(max(ends) + 1)]


def wide(address: str, records: int) -> dict[str, float]:
    """The default sample of a topic of 1,000 partitions."""
    produce(address, "wide", records, keys=200_000)
    return figures(measure_process(skew(address, "wide")))


def many(address: str, topics: int) -> dict[str, float]:
    """The default sample of so many small topics."""
    names = [f"many.{number:04d}" for number in range(topics)]
    create(address, dict.fromkeys(names, 3))
    producer = producer_of(address)
    for name in names:
        produce(address, name, 300, keys=50, producer=producer)
    return figures(measure_process(skew(address, "many.*", "--all")))


def whole(address: str, ends: list[int], rounds: int) -> dict[str, float]:
    """Alternating rounds of one session and of consumers; the session's first is its cold one."""
    with session(address, ends) as read:
        cold_s = read()
        taken = [(read(), measure_consumer(address, ends, 10_000)) for _ in range(rounds)]
    warm_s, many_s = (statistics.median(column) for column in zip(*taken, strict=True))
    one_s = measure_consumer(address, ends, 1)
    return {
        "records": sum(ends),
        "spark_s": warm_s,
        "spark_cold_s": cold_s,
        "consumer_one_s": one_s,
        "consumer_many_s": many_s,
        "ratio_one": one_s / warm_s,
        "ratio_many": many_s / warm_s,
    }


@contextmanager
def session(address: str, ends: list[int], cores: int | None = None) -> Iterator[Callable[[], float]]:
    """A Spark session, and what reads the short topic in it; on so many cores, or on all."""
    with subprocess.Popen(
        [sys.executable, "-c", WHOLE, address, "short", json.dumps(ends)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, range(cores)),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answered = process.stdin, process.stdout

        def read() -> float:
            asked.write("\n")
            asked.flush()
            return float(json.loads(answered.readline())["seconds"])

        yield read
        asked.close()


def cold(address: str, ends: list[int], rounds: int) -> dict[str, float]:
    """Whole processes: the command, and the consumer."""
    measure_process(skew(address, "short", "--records", "all"))
    taken = [
        (
            measure_process(skew(address, "short", "--records", "all")),
            measure_process(consumer(address, ends, 10_000)),
        )
        for _ in range(rounds)
    ]
    ours, theirs = (summarise_runs(column) for column in zip(*taken, strict=True))
    return {
        "spark_s": ours.seconds,
        "spark_cpu_s": ours.cpu,
        "consumer_s": theirs.seconds,
        "consumer_cpu_s": theirs.cpu,
        "cpu_ratio": ours.cpu / theirs.cpu,
    }


def consumer(address: str, ends: list[int], batch: int) -> list[str]:
    """The command line of one consumer that takes so many messages a call."""
    return [sys.executable, "-c", CONSUMER, address, "short", str(PARTITIONS), str(sum(ends)), str(batch)]


def measure_consumer(address: str, ends: list[int], batch: int) -> float:
    """Seconds of that consumer, once it has started."""
    done = subprocess.run(consumer(address, ends, batch), stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout)["seconds"])


def cores(address: str, ends: list[int]) -> dict[str, float]:
    """One core against two, after a cold round."""
    found = {}
    for count in (1, 2):
        with session(address, ends, count) as read:
            read()
            found[f"{count}_s"] = statistics.median(read() for _ in range(2))
    return {**found, "ratio": found["1_s"] / found["2_s"]}


def skew(address: str, topic: str, *more: str, archive: str = "off") -> list[str]:
    """The command line, with a configuration that says how to use an archive of Spark's classes."""
    file = Path(tempfile.gettempdir(), f"kafkaform-skew-{archive}.yaml")
    file.write_text(f"apiVersion: kafkaform/v1\nkind: Config\nskew: {{classArchive: {archive}}}\n", "utf-8")
    command = [sys.executable, "-m", "kafkaform", "skew", topic, "--bootstrap-server", address]
    return [*command, "--config", str(file), "--seed", "1", *more]


def start(address: str, ends: list[int], rounds: int, cache: Path) -> dict[str, float]:
    """Alternating rounds with an archive of Spark's classes and without, and of the consumer."""
    # Kafka's jars, which this machine has already, are in the other cache folder.
    with mock.patch.dict(os.environ, {"KAFKAFORM_CACHE": str(cache)}):
        measure_process(skew(address, "short", archive="now"))
        commands = {
            f"{label}_{how}": skew(address, "short", *options, archive=archive)
            for label, options in (
                ("small", ("--records", "20000")),
                ("sample", ()),
                ("full", ("--records", "all")),
            )
            for how, archive in (("plain", "off"), ("archive", "auto"))
        } | {"consumer": consumer(address, ends, 10_000)}
        taken = [
            {name: measure_process(command) for name, command in commands.items()} for _ in range(rounds)
        ]
    medians = {name: summarise_runs([of_round[name] for of_round in taken]) for name in commands}
    found = {f"{name}_s": median.seconds for name, median in medians.items()}
    found |= {f"{name}_cpu_s": median.cpu for name, median in medians.items()}
    return found | {
        "small_ratio": found["small_archive_s"] / found["small_plain_s"],
        "sample_ratio": found["sample_archive_s"] / found["sample_plain_s"],
        "full_cpu_ratio": found["full_archive_cpu_s"] / found["full_plain_cpu_s"],
        "consumer_cpu_ratio": found["full_archive_cpu_s"] / found["consumer_cpu_s"],
    }


def sample(address: str, rounds: int, records: int) -> dict[str, float]:
    """Whole commands: the default sample of a short and of a long topic."""
    produce(address, "long", records, keys=200_000)
    measure_process(skew(address, "short"))
    taken = [
        (measure_process(skew(address, "short")), measure_process(skew(address, "long")))
        for _ in range(rounds)
    ]
    short, long = (summarise_runs(column) for column in zip(*taken, strict=True))
    return {
        "short_s": short.seconds,
        "short_cpu_s": short.cpu,
        "long_s": long.seconds,
        "ratio": long.seconds / short.seconds,
    }


def keys(address: str, records: int) -> dict[str, float]:
    """Peak memory of the Python driver with 200,000 keys, and with one key for each record."""
    produce(address, "keys", records, keys=0)
    few, many = (
        measure_process(skew(address, "short", "--records", "all")),
        measure_process(skew(address, "keys", "--records", "all")),
    )
    return {
        "few_s": few.seconds,
        "few_mb": few.peak,
        "many_s": many.seconds,
        "many_mb": many.peak,
        "ratio": many.peak / few.peak,
    }


def partitions(address: str, records: int) -> dict[str, float]:
    """Seconds, and the peak memory of Python and of its JVM, by the number of partitions."""
    found: dict[str, float] = {}
    for count in (1_000, 5_000, 10_000):
        create(address, {f"of.{count}": count})
        produce(address, f"of.{count}", records, keys=200_000)
        command = skew(address, f"of.{count}", "--records", "all")
        found[f"{count}_cpu_s"] = measure_process(command).cpu
        found |= {f"{count}_{name}_mb": peak for name, peak in measure_memory(command).items()}
    return found | {"cpu_ratio": found["10000_cpu_s"] / found["5000_cpu_s"]}


if __name__ == "__main__":
    began = time.perf_counter()
    code = main()
    print(f"in {time.perf_counter() - began:.0f} s")
    sys.exit(code)
