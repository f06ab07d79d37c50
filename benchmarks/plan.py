"""Plans against the raw admin calls and against other tools, on one cluster and in one run: `make bench`.

Each topic has three partitions, or as many as are asked for, and one declared config; every tenth has
drifted. Each tool is given the same topics in files of its own: one for each topic, or one for all where that
is how it is used; kafkaform both. kafkaform and topicctl make the plan over SASL_SSL, too, with PLAIN and
with SCRAM: its fastest peer is topicctl, logged in alike, or kafka-gitops without a login.
How to get the other tools is in peers.md; without them, the raw calls are what the plan is compared with.
These are confluent-kafka's list_topics and describe_configs of the same topics. Everything is a process of
its own, rounds alternate between them, and medians are compared: the machine's other work hits all of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.rounds import KAFKAFORM, RAW, Figures, compare_medians, measure_process
from benchmarks.scene import (
    DAY_MS,
    MECHANISMS,
    PARTITIONS,
    PASSWORD,
    PREFIX,
    USER,
    create_topics,
    list_refs,
    start_brokers,
    write_config,
    write_manifests,
)
from benchmarks.table import report_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.devcluster.cluster import DevCluster

CALLS = """
import sys
from confluent_kafka.admin import AdminClient, ConfigResource
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
names = [name for name in admin.list_topics(timeout=120).topics if name.startswith(sys.argv[2])]
asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
futures = admin.describe_configs(asked, request_timeout=600)
entries = [future.result() for future in futures.values()]
assert len(entries) == int(sys.argv[3]), len(entries)
"""

PROFILES = 40

YARDSTICK = "import confluent_kafka.admin"
"""The same work everywhere, by which seconds of two machines can be compared."""

HEADINGS = ("topics", "", "seconds", "to raw calls", "to fastest peer", "CPU s", "peak MB", "ms a topic")


class Topics(NamedTuple):
    """The changes that every tool plans.

    Attributes:
        kafka: The brokers.
        count: How many topics.
        partitions: How many each topic has.
    """

    kafka: DevCluster
    count: int
    partitions: int


LOGINS = {"plaintext": "", "plain": ", SASL_SSL, PLAIN", "scram": ", SASL_SSL, SCRAM"}
"""How the ways are named that log in, by the cluster of kafkaform.yaml."""


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, nargs="+", default=[1_000, 5_000, 20_000])
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of each topic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--topicctl", type=Path, help="its program")
    parser.add_argument("--kafka-gitops", type=Path, help="a folder of its jar and those that it needs")
    options = parser.parse_args()
    rows = []
    for count in options.topics:
        with start_brokers(count * options.partitions) as (folder, kafka):
            create_topics(kafka, count, options.partitions)
            topics = Topics(kafka, count, options.partitions)
            ways, peers = _kafkaform(folder, topics), {}
            if options.topicctl is not None:
                for login, named in LOGINS.items():
                    peers[f"topicctl check{named}"] = _topicctl(options.topicctl, folder, topics, login)
            if options.kafka_gitops is not None:
                peers["kafka-gitops plan"] = _kafka_gitops(options.kafka_gitops, folder, topics)
            calls = [*RAW, CALLS, kafka.bootstrap_servers, PREFIX, str(count)]
            ways = {**ways, **peers, "raw calls": _process(calls)}
            rows += _rows(count, compare_medians(ways, options.rounds), peers)
    report_rows("plan", HEADINGS, *rows)
    print(f"kafkaform --help: {_median([*KAFKAFORM, '--help'], options.rounds):.3f} s")
    # What says how fast the machine is: seconds of another one are to be seen beside it.
    print(f"{YARDSTICK}: {_median([*RAW, YARDSTICK], options.rounds):.3f} s")
    return 0


def _rows(
    count: int, taken: Mapping[str, Figures], peers: Mapping[str, object]
) -> list[dict[str, float | str]]:
    def fastest(way: str) -> float | None:
        login = next((named for named in LOGINS.values() if named and way.endswith(named)), "")
        alike = (f"topicctl check{login}", "kafka-gitops plan")
        return min((taken[peer].seconds for peer in alike if peer in peers), default=None)

    return [
        {
            "topics": count,
            "way": name,
            "seconds": figures.seconds,
            "raw_ratio": figures.seconds / taken["raw calls"].seconds,
            "peer_ratio": figures.seconds / peer if (peer := fastest(name)) else "",
            "cpu": figures.cpu,
            "peak": figures.peak,
            "each": figures.seconds / count * 1_000,
        }
        for name, figures in taken.items()
    ]


def _median(command: Sequence[str], rounds: int) -> float:
    return statistics.median(measure_process(command).seconds for _ in range(rounds))


def _process(command: Sequence[str], expect: int = 0) -> Callable[[int], Figures]:
    return lambda _: measure_process(command, expect)


def _kafkaform(folder: Path, topics: Topics) -> dict[str, Callable[[int], Figures]]:
    config = write_config(folder, topics.kafka)
    files = write_manifests(folder / "topics", topics.count, partitions=topics.partitions)
    item = folder / "one"
    item.mkdir()
    (item / "topics.yaml").write_text("---\n".join(path.read_text() for path in sorted(files.iterdir())))

    profiled = write_profiled(folder / "profiled", config, topics)

    def plan(manifests: Path, cluster: str, config: Path = config) -> Callable[[int], Figures]:
        command = [*KAFKAFORM, "plan", str(manifests), "--config", str(config), "--cluster", cluster]
        return _process([*command, "--format", "json", "--detailed-exitcode", "--no-strict"], expect=2)

    return {
        "plan": plan(files, "plaintext"),
        "plan, one file": plan(item, "plaintext"),
        f"plan, {PROFILES} profiles": plan(profiled, "plaintext", profiled / "kafkaform.yaml"),
        "plan, SASL_SSL, PLAIN": plan(files, "plain"),
        "plan, SASL_SSL, SCRAM": plan(files, "scram"),
        "validate": _process([*KAFKAFORM, "validate", str(files)]),
    }


def write_profiled(folder: Path, config: Path, topics: Topics) -> Path:
    """Write the same topics, with all that they share in profiles; return the folder."""
    folder.mkdir()
    names = [f"p{number:02}" for number in range(PROFILES)]
    spec = f"{{Topic: {{partitions: {topics.partitions}, replicationFactor: 1, retention: 1d}}}}"
    profiles = "".join(f"  {name}: {spec}\n" for name in names)
    (folder / "kafkaform.yaml").write_text(f"{config.read_text()}profiles:\n{profiles}")
    for number, ref in enumerate(list_refs(topics.count)):
        (folder / f"{ref.name}.yaml").write_text(
            f"apiVersion: kafkaform/v1\nkind: Topic\nmetadata:\n  name: {ref.name}\n"
            f"spec:\n  profile: {names[number % PROFILES]}\n"
        )
    return folder


def _topicctl(program: Path, folder: Path, topics: Topics, login: str) -> Callable[[int], Figures]:
    place = folder / f"topicctl-{login}"
    (place / "topics").mkdir(parents=True)
    about = "environment: local\n  region: local\n  description: of a benchmark\n"
    address, secured = topics.kafka.bootstrap_servers, ""
    if login in MECHANISMS:
        address = topics.kafka.sasl_bootstrap_servers
        secured = (
            f"  tls: {{enabled: true, caCertPath: {folder / 'certificate.pem'}}}\n"
            f"  sasl: {{enabled: true, mechanism: {MECHANISMS[login]}, "
            f"username: {USER}, password: {PASSWORD}}}\n"
        )
    (place / "cluster.yaml").write_text(
        f"meta:\n  name: bench\n  {about}spec:\n  bootstrapAddrs: {address.split(',')}\n{secured}"
    )
    for ref in list_refs(topics.count):
        (place / "topics" / f"{ref.name}.yaml").write_text(
            f"meta:\n  name: {ref.name}\n  cluster: bench\n  {about}"
            f"spec:\n  partitions: {topics.partitions}\n  replicationFactor: 1\n"
            f"  retentionMinutes: {DAY_MS // 60_000}\n  placement: {{strategy: any}}\n"
        )
    # It says with 1 that topics differ.
    return _process([str(program), "check", "--no-spinner", str(place / "topics" / "*.yaml")], expect=1)


def _kafka_gitops(jars: Path, folder: Path, topics: Topics) -> Callable[[int], Figures]:
    state = folder / "state.yaml"
    state.write_text(
        "topics:\n"
        + "".join(
            f"  {ref.name}:\n    partitions: {topics.partitions}\n    replication: 1\n"
            f"    configs:\n      retention.ms: {DAY_MS}\n"
            for ref in list_refs(topics.count)
        )
    )
    properties = folder / "gitops.properties"
    properties.write_text("")  # it needs such a file, but the environment's address, if only a default, wins
    address = topics.kafka.bootstrap_servers
    program = ["env", f"KAFKA_BOOTSTRAP_SERVERS={address}", "java", "-cp", str(jars / "*")]
    files = ["-c", str(properties), "-f", str(state)]
    return _process([*program, "com.devshawn.kafka.gitops.MainCommand", *files, "--skip-acls", "plan"])


if __name__ == "__main__":
    sys.exit(main())
