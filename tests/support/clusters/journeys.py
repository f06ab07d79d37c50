"""The main journeys of a user, to be taken on any cluster: a version of Kafka, or what a vendor offers of it.

A journey is a function of a `Site`: it calls the command line as a user does, and asserts what the user sees.
Where a cluster cannot do a step, its expectations name a `Limit` for it: the exit code and the line that the
user sees instead. There is no skipping: a step that works although a limit is expected fails, as does a limit
that no step has met. What a journey came to is a cell of docs/brokers.md: "yes", or the limits that it met.

    limits = {"group configs": {"apply": Limit("from Kafka 4.0 on", code=1, line="refused: …")}}
    cell = take("group configs", Site(project, direct, limits["group configs"]))

Steps are named in the calls of `Site.works`. tests/versions has the expectations of Kafka's versions.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kafkaform.core.files import hold_lock, replace
from tests.support.cli.project import ROOT, Call, Project, manifest
from tests.support.clusters.fixtures import TIMEOUT_S, connect, eventually
from tests.support.clusters.group_clients import (
    ConnectWorker,
    Running,
    check_order,
    commit,
    produce,
    read_numbers,
    running,
    write_numbers,
)


@dataclass(frozen=True)
class Limit:
    """A limit of a cluster in a step.

    Attributes:
        cell: For the table: a few words, without the subject.
        line: What the user reads, without line breaks; `{prefix}` stands for that of the names.
        code: The exit code of the call. With the code that the step has where it works, the journey goes on.
    """

    cell: str
    line: str
    code: int


@dataclass
class Site:
    """A cluster of at least three brokers, and a folder for manifests.

    Attributes:
        project: Its folder, the prefix of its names, and the address that kafkaform is given.
        direct: The brokers themselves, for what a journey does beside kafkaform: writing records, consuming.
        limits: What the cluster does not do in a journey, by step.
        met: The limits that were met.
    """

    project: Project
    direct: str
    limits: Mapping[str, Limit] = field(default_factory=dict)
    met: dict[str, Limit] = field(default_factory=dict)

    def works(self, step: str, call: Call, code: int = 0) -> bool:
        """Return whether a journey goes on after a step; where the step has a limit, it must be reported."""
        limit = self.limits.get(step)
        if limit is None:
            call.needs(code)
            return True
        self.met[step] = limit
        call.needs(limit.code)
        assert limit.line.format(prefix=self.project.prefix) in call.words, call.both
        return limit.code == code

    def name(self, short: str) -> str:
        return self.project.prefix + short

    def fill_topic(self, short: str, partitions: int = 3, records: int = 10, **spec: Any) -> str:
        """A topic that is declared, applied, and has so many records in each partition."""
        name = self.project.topic(short, partitions=partitions, keyed=False, **spec)
        self.project.apply("topics").needs(0)
        produce(self.direct, name, dict.fromkeys(range(partitions), records))
        return name

    @contextmanager
    def join_group(self, group: str, topic: str, protocol: str) -> Iterator[Running]:
        """A member at work that has got a record of each partition, from the offsets of its group."""
        with running(self.direct, group, [topic], protocol) as members:
            produce(self.direct, topic, dict.fromkeys(range(3), 1))
            eventually(members[0].firsts, lambda seen: len(seen) == 3, 60)
            yield members[0]

    def commit(self, short: str, offsets: Mapping[tuple[str, int], int]) -> str:
        """Commit offsets as a consumer does, so that there is a group; returns its full name."""
        commit(self.direct, self.name(short), offsets)
        return self.name(short)

    def read_committed(self, group: str) -> list[int]:
        """The offsets of a group, by partition, as kafkaform shows them."""
        (found,) = self.project.run("status", group, "--format", "json").needs(0).json["groups"]
        return [part["committed"] for part in found["partitions"]]

    def shows(self, short: str, **wanted: Any) -> None:
        """Wait until a topic has these partitions and own configs: brokers hear of changes one by one."""
        own = {name.replace("_", "."): value for name, value in wanted.items()}
        eventually(self._live, lambda topics: topics is not None and topics.get(short) == own)

    def shows_none(self) -> None:
        eventually(self._live, lambda topics: topics == {})

    def _live(self) -> dict[str, dict[str, Any]] | None:
        """The project's topics; None if a broker does not know yet what another one listed."""
        try:
            return self.project.live()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return None

    def await_settled(self) -> None:
        """Wait until a plan has nothing to change, whichever broker answers it."""
        call = eventually(
            lambda: self.project.run("plan", "topics", "--detailed-exitcode"), lambda call: call.code != 2
        )
        call.needs(0)

    def replicas(self, topic: str) -> list[list[int]]:
        with connect(self.direct) as cluster:
            return [[*state.replicas] for state in cluster.layout([topic]).topics.get(topic, ())]


Journey = Callable[[Site], None]
JOURNEYS: dict[str, Journey] = {}
"""By their names in the table, in its order."""
DAILY: list[str] = []
"""Those of every change."""


def journey(name: str, *, daily: bool = False) -> Callable[[Journey], Journey]:
    """Register a journey under its name in the table."""

    def register(taken: Journey) -> Journey:
        JOURNEYS[name] = taken
        if daily:
            DAILY.append(name)
        return taken

    return register


def take(name: str, site: Site) -> str:
    """Take a journey, at a site with the limits of this journey; returns its cell of the table."""
    JOURNEYS[name](site)
    assert site.met.keys() == site.limits.keys(), "every limit is met"
    return "; ".join(dict.fromkeys(limit.cell for limit in site.met.values())) or "yes"


@journey("plan", daily=True)
def _plan(site: Site) -> None:
    name = site.project.topic("orders", partitions=3, replicationFactor=3, retention="7d")
    call = site.project.run("plan", "topics", "--detailed-exitcode")
    if site.works("plan", call, 2):
        assert f"Topic/{name}" in call.out
        assert "1 to create" in call.out
        assert "not validated" not in call.both
        assert site.project.live() == {}


@journey("apply", daily=True)
def _apply(site: Site) -> None:
    site.project.topic("orders", partitions=3, replicationFactor=3, retention="7d")
    if not site.works("create", created := site.project.apply("topics")):
        return
    assert "Verified by reading" in created.out
    site.shows("orders", partitions=3, retention_ms="604800000")
    config = {"max.message.bytes": "2MiB"}
    site.project.topic("orders", partitions=3, replicationFactor=3, retention="8d", config=config)
    if site.works("configs", site.project.apply("topics")):
        site.shows("orders", partitions=3, retention_ms="691200000", max_message_bytes="2097152")
        site.await_settled()


@journey("saved plan")
def _saved_plan(site: Site) -> None:
    site.project.topic("orders", partitions=3, replicationFactor=3)
    site.project.apply("topics").needs(0)
    site.project.topic("orders", partitions=3, replicationFactor=3, retention="8d")
    if not site.works("plan", site.project.run("plan", "topics", "--out", "plan.json")):
        return
    if site.works("apply", call := site.project.apply("plan.json")):
        assert "1 updated" in call.out
        site.shows("orders", partitions=3, retention_ms="691200000")
        assert "already in place" in site.project.apply("plan.json").needs(0).out


@journey("partitions", daily=True)
def _partitions(site: Site) -> None:
    name = site.project.topic("orders", partitions=3, replicationFactor=3, keyed=False)
    site.project.apply("topics").needs(0)
    site.project.topic("orders", partitions=6, replicationFactor=3, keyed=False)
    if site.works("apply", site.project.apply("topics")):
        eventually(lambda: site.replicas(name), lambda found: [len(brokers) for brokers in found] == [3] * 6)
        site.await_settled()


@journey("delete", daily=True)
def _delete(site: Site) -> None:
    name = site.project.topic("orders", partitions=3, replicationFactor=3)
    site.project.apply("topics").needs(0)
    site.project.topic("orders", state="absent")
    assert "needs consent to delete" in site.project.apply("topics").needs(1).out
    consent = ("--allow", f"Topic/{name}:delete")
    if site.works("apply", site.project.apply("topics", *consent)) or site.works(
        "by name", site.project.apply("topics", *consent, "--allow", f"Topic/{name}:delete-by-name")
    ):
        site.shows_none()
        site.await_settled()


@journey("recreate", daily=True)
def _recreate(site: Site) -> None:
    name = site.fill_topic("orders", replicationFactor=3)
    group = site.project.group("readers", topics=[name], offsets={"initial": "earliest"})
    site.commit("readers", {(name, number): 10 for number in range(3)})
    with connect(site.direct) as brokers:  # the id that a service hides
        uid = brokers.topic_ids([name])[name]
    site.project.topic("orders", partitions=1, keyed=False, replicationFactor=3, recreate=uid)
    consent = ("--allow", f"Topic/{name}:recreate")
    if not site.works("plan", site.project.run("plan", "topics", *consent)):
        return
    site.project.apply("topics", *consent).needs(0)
    site.shows("orders", partitions=1)
    site.await_settled()
    write_numbers(site.direct, name, range(10))
    assert read_numbers(site.direct, group, name, 10) == [*range(10)]


@journey("drift", daily=True)
def _drift(site: Site) -> None:
    site.project.topic("orders", partitions=3, replicationFactor=3, retention="7d")
    site.project.apply("topics").needs(0)
    if site.works("drift", site.project.run("drift", "topics")):
        site.project.set_config("orders", "retention.ms", "86400000")
        # Another broker may answer, which has not heard of it yet.
        call = eventually(lambda: site.project.run("drift", "topics"), lambda call: call.code != 0)
        assert "retention.ms" in call.needs(2).out


@journey("import")
def _import(site: Site) -> None:
    name = site.project.topic("orders", partitions=3, replicationFactor=3, retention="7d")
    site.project.apply("topics").needs(0)
    group = site.commit("readers", {(name, 0): 0})
    elsewhere = dataclasses.replace(site.project, folder=site.project.folder / "elsewhere")
    elsewhere.folder.mkdir()
    if site.works("import", elsewhere.run("import", "--match", f"{site.project.prefix}*")):
        written = "\n".join(file.read_text() for file in elsewhere.folder.rglob("*.yaml"))
        assert (f"name: {name}\n" in written, f"name: {group}\n" in written) == (True, True)
        elsewhere.run("plan", "topics", "--detailed-exitcode").needs(0)


@journey("status", daily=True)
def _status(site: Site) -> None:
    name = site.fill_topic("orders", replicationFactor=3)
    group = site.commit("readers", {(name, number): 4 for number in range(3)})
    call = site.project.run("status", f"{site.project.prefix}*")
    if site.works("status", call):
        assert (name in call.out, group in call.out) == (True, True)
    found = site.project.run("status", f"{site.project.prefix}*", "--format", "json").needs(0).json
    (shown,) = found["groups"]
    with connect(site.project.servers) as cluster:
        # Brokers list a group that no member has joined as classic, and not all say that none has.
        protocol = None if cluster.groups([group]).groups[group].never_joined else "classic"
    assert (shown["name"], shown["protocol"], shown["lag"]) == (group, protocol, 18)
    for step, entries in (("sizes", found["unread"]), ("notes", found["notes"])):
        site.works(step, call)
        assert (step in site.limits) == bool(entries)


@journey("doctor", daily=True)
def _doctor(site: Site) -> None:
    site.project.topic("orders", partitions=3, replicationFactor=3, config={"min.insync.replicas": 2})
    if not site.works("min.insync.replicas", site.project.apply("topics")):
        site.project.topic("orders", partitions=3, replicationFactor=3)
        site.project.apply("topics").needs(0)
    site.project.config(rules={"KF310": "off"})  # how full this machine's disk is, is nothing to test
    if site.works("doctor", call := site.project.run("doctor")):
        assert ": healthy\n" in call.out
        assert ("doctor" in site.limits) == ("not checked" in call.out)


def _groups(site: Site, protocol: str) -> None:
    name = site.fill_topic("orders", replicationFactor=3)
    group = site.project.group("readers", topics=[name], protocol=protocol, offsets={"initial": "earliest"})
    if not site.works("apply", site.project.apply("topics")):
        return
    assert site.read_committed(group) == [0, 0, 0]
    site.await_settled()
    with site.join_group(group, name, protocol) as member:
        assert set(member.firsts().values()) == {0}
        call = site.project.run("status", group, "--format", "json").needs(0)
        (shown,) = call.json["groups"]
        assert (shown["protocol"], shown["state"], len(shown["members"])) == (protocol, "Stable", 1)
        site.await_settled()


for _name, _protocol in (("classic groups", "classic"), ("consumer groups (KIP-848)", "consumer")):
    journey(_name, daily=True)(partial(_groups, protocol=_protocol))


@journey("group configs", daily=True)
def _group_configs(site: Site) -> None:
    name = site.fill_topic("orders", replicationFactor=3)
    site.project.group("readers", topics=[name], config={"consumer.session.timeout.ms": "50s"})
    if site.works("apply", site.project.apply("topics")):
        site.await_settled()
        site.project.group("readers", topics=[name])
        assert "consumer.session.timeout.ms = 50s" in site.project.run("plan", "topics").needs(0).out


@journey("share and streams groups")
def _newer_groups(site: Site) -> None:
    name = site.fill_topic("orders", replicationFactor=3)
    for protocol, config in (("share", "share.auto.offset.reset"), ("streams", "streams.session.timeout.ms")):
        value = "earliest" if protocol == "share" else "50s"
        site.project.group("readers", topics=[name], protocol=protocol, config={config: value})
        site.works(protocol, site.project.apply("topics"))
        (site.project.folder / "topics" / "group-readers.yaml").unlink()


@journey("groups of Kafka Connect")
def _connect_groups(site: Site) -> None:
    group = site.name("connect-cluster")
    with closing(ConnectWorker(site.direct, group, "")) as worker:
        worker.join()
        found = site.project.run("status", group, "--format", "json").needs(0).json
        assert [(shown["name"], shown["protocol"]) for shown in found["groups"]] == [(group, "classic")]
        assert found["unread"] == []
        site.project.config(rules={"KF310": "off"})
        site.works("doctor", site.project.run("doctor"))
        site.works("import", site.project.run("import", "--match", f"{site.project.prefix}*"))


@journey("offset reset")
def _reset(site: Site) -> None:
    name = site.fill_topic("orders", replicationFactor=3)
    group = site.project.group("readers", topics=[name], protocol="classic", offsets={"initial": "latest"})
    site.project.apply("topics").needs(0)
    assert site.read_committed(group) == [10, 10, 10]
    call = site.project.run("reset", group, "--to", "3", "--out", "reset.json")
    if site.works("plan", call, code=1):
        assert call.out.count("7 records read again") == 3
        assert "offset-reset" in site.project.apply("reset.json").needs(1).out
        consent = f"--allow=ConsumerGroup/{group}:offset-reset"
        if site.works("apply", site.project.apply("reset.json", consent)):
            assert site.read_committed(group) == [3, 3, 3]


@journey("succession", daily=True)
def _succession(site: Site) -> None:
    def read_stages() -> list[str]:
        (found,) = site.project.run("succession", "--format", "json").json["successions"]
        return [group["stage"] for group in found["groups"]]

    old = site.project.topic("old", partitions=3, keyed=False, replicationFactor=3)
    group = site.project.group("readers", topics=[old], offsets={"initial": "earliest"})
    site.project.apply("topics").needs(0)
    write_numbers(site.direct, old, range(30))
    numbers = read_numbers(site.direct, group, old, 20)
    soon: dict[str, Any] = {"quietPeriod": "1s", "recoveryWindow": "1s"}
    new = site.project.topic("new", partitions=1, keyed=False, replicationFactor=3, succeeds=old, **soon)
    site.project.group("readers", topics=[new], offsets={"initial": "earliest"})
    site.project.config()
    site.project.apply("topics").needs(0)
    write_numbers(site.direct, new, range(30, 40))
    if not site.works("succession", site.project.run("succession"), 1):
        return
    assert read_stages() == ["stopped"]
    numbers += read_numbers(site.direct, group, old, 10)
    eventually(read_stages, lambda stages: stages == ["ready"])
    site.project.apply("topics").needs(0)
    numbers += read_numbers(site.direct, group, new, 10)
    check_order(numbers, range(40))
    site.project.topic("old", state="absent")
    consent = ("--allow", f"Topic/{old}:delete")
    if site.works("delete", site.project.apply("topics", *consent)) or site.works(
        "by name", site.project.apply("topics", *consent, "--allow", f"Topic/{old}:delete-by-name")
    ):
        site.await_settled()
        site.project.run("succession").needs(0)


@journey("client quotas", daily=True)
def _quotas(site: Site) -> None:
    """Of a user that nobody is; they are gone in the end, as a quota belongs to no topic."""
    name = f"user={site.name('alice')},client-id=<default>"
    limits = {"producer_byte_rate": "10MiB", "request_percentage": 50}

    def declare(**spec: Any) -> None:
        site.project.write("topics/quota.yaml", manifest(name, spec, kind="ClientQuota"))

    def live() -> Any:
        call = site.project.run("get", "quota", name, "--format", "json")
        return None if call.code else call.json["spec"]["config"]

    declare(config=limits)
    if not site.works("apply", site.project.apply("topics")):
        return
    assert eventually(live, bool) == {"producer_byte_rate": "10MiB", "request_percentage": "50"}
    site.project.run("plan", "topics", "--detailed-exitcode").needs(0)
    declare(config={"producer_byte_rate": "5MiB", "request_percentage": None})
    assert "quota-removal" in site.project.apply("topics").needs(1).out
    site.project.apply("topics", "--allow", f"ClientQuota/{name}:quota-removal").needs(0)
    assert eventually(live, lambda found: found is not None and len(found) == 1) == {
        "producer_byte_rate": "5MiB"
    }
    declare(state="absent")
    site.project.apply("topics", "--allow", f"ClientQuota/{name}:delete").needs(0)
    eventually(live, lambda found: found is None)


@journey("access", daily=True)
def _access(site: Site) -> None:
    """Of a user that nobody is, on brokers with an authorizer; its ACLs are gone in the end."""
    topic, group, principal = site.name("orders"), site.name("billing"), f"User:{site.name('alice')}"

    def declare(**spec: Any) -> None:
        written = manifest(site.name("alice"), {"principals": [principal], **spec}, kind="Access")
        site.project.write("topics/access.yaml", written)

    def can(operation: str, resource: str) -> int:
        return site.project.run("can", principal, operation, resource).code

    declare(produces=[topic], consumes=[{"group": group, "topics": [{"prefix": topic}]}])
    consent = ("--allow", f"Access/{principal}:*")
    if not site.works("apply", site.project.apply("topics", *consent)):
        return
    site.project.run("plan", "topics", "--detailed-exitcode").needs(0)
    for operation, resource in (
        ("write", topic),
        ("read", f"{topic}.v1"),
        ("read", f"ConsumerGroup/{group}"),
    ):
        assert can(operation, resource) == 0
    assert can("write", f"{topic}.v1") != 0
    declare(produces=[topic])
    site.project.apply("topics").needs(1)
    assert can("read", f"{topic}.v1") == 0, "it needs consent"
    site.project.apply("topics", *consent).needs(0)
    assert can("read", f"{topic}.v1") != 0
    assert can("write", topic) == 0
    site.project.write("live.yaml", site.project.run("get", f"Access/{principal}").needs(0).out)
    site.project.run("plan", "live.yaml", "--detailed-exitcode").needs(0)
    declare(produces=[topic], state="absent")
    site.project.apply("topics", *consent).needs(0)
    site.project.run("get", f"Access/{principal}").needs(1)


@journey("replication factor", daily=True)
def _replication_factor(site: Site) -> None:
    name = site.project.topic("orders", partitions=3, keyed=False, replicationFactor=1)
    if not site.works("create", site.project.apply("topics")):
        return
    produce(site.direct, name, dict.fromkeys(range(3), 10))
    site.project.topic("orders", partitions=3, keyed=False, replicationFactor=3)
    if site.works("apply", site.project.apply("topics", "--throttle", "50MB/s")) or (
        site.works("unthrottled", site.project.apply("topics", "--throttle", "none"))
    ):
        eventually(lambda: site.replicas(name), lambda found: [len(brokers) for brokers in found] == [3] * 3)
        site.shows("orders", partitions=3)  # the throttle is gone
        site.await_settled()


@journey("rebalance")
def _rebalance(site: Site) -> None:
    places = [[1], [1], [2]]
    static = {"strategy": "static", "replicas": places}
    name = site.project.topic("orders", partitions=3, keyed=False, replicationFactor=1, placement=static)
    if not site.works("create", site.project.apply("topics")):
        return
    produce(site.direct, name, dict.fromkeys(range(3), 10))
    eventually(lambda: site.replicas(name), lambda found: found == places)
    site.project.topic("orders", partitions=3, keyed=False, replicationFactor=1)
    some = ("--topics", name, "--remove-broker", 1, "--out", "drain.json")
    if not site.works("plan", call := site.project.run("rebalance", *some)):
        return
    assert "2 replicas to copy" in call.out
    if site.works("apply", site.project.apply("drain.json")) or (
        site.works("unthrottled", site.project.apply("drain.json", "--throttle", "none"))
    ):
        eventually(lambda: site.replicas(name), lambda found: all(1 not in brokers for brokers in found))


KEPT = {"KAFKAFORM_AUDIT": "true"}


def _run_recorded(site: Site) -> Call:
    for retention in ("7d", "8d"):
        name = site.project.topic("orders", partitions=3, replicationFactor=3, retention=retention)
        call = site.project.run("apply", "topics", "--auto-approve", env=KEPT)
        if call.code:
            return call
    return site.project.run("history", f"Topic/{name}", "--format", "json")


@journey("history")
def _history(site: Site) -> None:
    if site.works("apply", call := _run_recorded(site)):
        assert [change["action"] for change in call.json["changes"]] == ["update", "create"]


@journey("revert")
def _revert(site: Site) -> None:
    if site.works("apply", call := _run_recorded(site)):
        change = call.json["changes"][0]["id"]
        site.project.run("revert", change, "topics").needs(0)
        site.project.run("apply", "topics", "--auto-approve", "--allow", "destructive", env=KEPT).needs(0)
        site.shows("orders", partitions=3, retention_ms="604800000")


@journey("lock", daily=True)
def _lock(site: Site) -> None:
    site.project.topic("orders", partitions=3, replicationFactor=3)
    call = site.project.run("apply", "topics", "--auto-approve", env={"KAFKAFORM_LOCK": "true"})
    if site.works("apply", call):
        site.shows("orders", partitions=3)


@journey("skew")
def _skew(site: Site) -> None:
    name = site.project.topic("orders", partitions=3, keyed=True, replicationFactor=3)
    site.project.apply("topics").needs(0)
    producer = Producer({"bootstrap.servers": site.direct, "partitioner": "murmur2_random"})
    for number in range(2000):
        producer.produce(name, b"value", key=b"hot" if number % 2 else str(number).encode())
    assert producer.flush(TIMEOUT_S) == 0
    if site.works("skew", call := site.project.process("skew", name, "--out", "skew.json")):
        (topic,) = json.loads((site.project.folder / "skew.json").read_text())["topics"]
        assert (topic["name"], topic["diagnosis"]) == (name, "hot_keys"), call.out


TABLE = ROOT / "docs" / "brokers.json"
ASKED = os.environ.get("KAFKA_VERSIONS", "").split()


def list_taken(daily: str, is_asked: Callable[[str], bool]) -> list[tuple[str, str]]:
    """Return the brokers and journeys of this run: all on those that are asked for, or a part on one."""
    brokers = list(filter(is_asked, ASKED)) if ASKED else [daily]
    return [*product(brokers, JOURNEYS if ASKED else DAILY)]


def check_recorded(group: str, column: str, name: str, cell: str) -> None:
    """Compare what a journey came to with the table, or keep it in the file that is asked for.

    It is kept in the order of the journeys; other tests may do so at the same time.
    """
    written = os.environ.get("KAFKAFORM_BROKERS_TABLE")
    if not written:
        assert cell == json.loads(TABLE.read_text("utf-8"))[group].get(column, {}).get(name)
        return
    table = ROOT / written
    with hold_lock(table.with_suffix(".lock")):
        content = json.loads(table.read_text("utf-8")) if table.exists() else {}
        cells = content.setdefault(group, {}).setdefault(column, {})
        cells[name] = cell
        content[group][column] = {known: cells[known] for known in JOURNEYS if known in cells}
        content[group] = dict(sorted(content[group].items()))
        replace(table, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    table.with_suffix(".lock").unlink(missing_ok=True)
