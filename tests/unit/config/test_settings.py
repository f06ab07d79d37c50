"""The configuration file: what it says, and everything that can be wrong in it."""

from pathlib import Path

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.client_properties import resolve
from kafkaform.config.manifests.loader import Context
from kafkaform.config.settings import DEFAULT_IGNORE, AuditSettings, Settings, find_settings, read_settings
from kafkaform.core.errors import InvalidInput, UsageError
from kafkaform.core.model import Undeclared
from kafkaform.core.values import replace
from kafkaform.resources.name_globs import NameGlobs
from kafkaform.resources.replicas.moves import MoveOptions, WhenBusy
from kafkaform.rules.catalogue import DEFAULT_LIMITS, ProjectLimits
from tests.support.golden import list_texts

HEAD = "apiVersion: kafkaform/v1\nkind: Config\n"
CLUSTER = "client: {bootstrap.servers: 'h:9092'}"
ONE_CLUSTER = f"clusters: {{a: {{{CLUSTER}}}}}\n"


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_settings(text: str, file: str = "kafkaform.yaml") -> Settings:
    Path(file).write_text(HEAD + text)
    return read_settings(Path(file))


def list_problems(text: str | bytes) -> list[str]:
    Path("kafkaform.yaml").write_bytes(text if isinstance(text, bytes) else (HEAD + text).encode())
    with pytest.raises(InvalidInput) as caught:
        read_settings(Path("kafkaform.yaml"))
    return [str(problem).removeprefix("kafkaform.yaml:") for problem in caught.value.problems]


def test_every_setting_is_read() -> None:
    Path("repo").mkdir()
    found = write_settings(
        """
manifests: [topics, more/topics]
environments: [dev, prod]
clusters:
  dev: {environment: dev, client: {bootstrap.servers: 'h:9092'}}
  prod:
    environment: prod
    clusterId: abc
    brokers: 3
    forbid: ["partition-*"]
    client: {bootstrap.servers: 'p:9093', security.protocol: SSL, metadata.max.age.ms: 010}
defaults:
  Topic:
    partitions: 3
    retention: 7d
    config: {min.cleanable.dirty.ratio: 0.50}
    overrides: {prod: {partitions: 12, config: {min.insync.replicas: 2}}}
undeclared: keep
owns: [orders.*]
protected: ["*.audit"]
ignore: [_*]
rules: {KF101: off, KF102: warning, policy/named: info}
limits:
  topicName: ^[a-z.]+$
  topics: 10
  partitions: 200
  recoveryWindow: 3d
  blastRadius: 20%
  leaderImbalance: 25
policies:
  - {name: named, message: Names are short., require: {name: "^.{1,9}$"}}
""",
        "repo/kafkaform.yaml",
    )
    assert found.file == "repo/kafkaform.yaml"
    assert found.manifests == (Path("repo/topics"), Path("repo/more/topics"))
    assert (found.environments, found.undeclared) == (("dev", "prod"), Undeclared.KEEP)
    assert (found.owns, found.protected, found.ignore) == (
        NameGlobs(("orders.*",)),
        ("*.audit",),
        NameGlobs(("_*",)),
    )
    assert found.rules == {"KF101": "off", "KF102": "warning", "policy/named": "info"}
    assert found.limits == ProjectLimits("^[a-z.]+$", 10, 200, 3 * 86_400_000, 0.2, 25)
    assert [policy.code for policy in found.policies] == ["policy/named"]
    prod = found.clusters["prod"]
    assert (prod.environment, prod.cluster_id, prod.forbid) == ("prod", "abc", ("partition-*",))
    assert (prod.brokers, found.clusters["dev"].brokers) == (3, None)
    assert prod.client.describe()["bootstrap.servers"] == "p:9093"
    base = {"partitions": 3, "config": {"min.cleanable.dirty.ratio": "0.5", "retention.ms": "604800000"}}
    over = {"partitions": 12, "config": {"min.insync.replicas": "2"}}
    context = found.build_context("prod")
    assert replace(context, default_locations={}, clusters={}) == Context(
        ("dev", "prod"), "prod", {"Topic": (base, over)}, Undeclared.KEEP
    )
    assert found.build_context("dev").defaults == {"Topic": (base,)}
    with pytest.raises(UsageError, match="environment"):
        found.build_context(None)


def test_name_globs_have_principals() -> None:
    found = write_settings("owns: {principals: ['User:a-*']}\nignore: {principals: ['User:admin']}\n")
    assert found.owns == NameGlobs((), ("User:a-*",))
    assert found.ignore == replace(DEFAULT_IGNORE, principals=("User:admin",))
    assert (
        write_settings("ignore: {names: []}\n").ignore == write_settings("ignore: []\n").ignore == NameGlobs()
    )


def test_settings_have_defaults() -> None:
    found = write_settings("")
    assert found.manifests == (Path("topics"),)
    assert found.environments == ()
    assert found.clusters == {}
    assert (found.ignore, found.undeclared) == (DEFAULT_IGNORE, Undeclared.REPORT)
    assert (found.limits, found.policies) == (DEFAULT_LIMITS, ())
    assert find_settings(None) == found
    Path("kafkaform.yaml").unlink()
    assert find_settings(None) == Settings()
    assert Settings().environments is None


def test_environments_default_to_those_of_clusters() -> None:
    first, two, *_ = (f"{{environment: {name}, {CLUSTER}}}" for name in ("prod", "dev"))
    clusters = f"clusters: {{a: {first}, b: {two}, c: {first}, d: {{{CLUSTER}}}}}\n"
    assert write_settings(clusters).environments == ("prod", "dev")
    assert write_settings(f"environments: [dev, test, prod]\n{clusters}").environments == (
        "dev",
        "test",
        "prod",
    )


@pytest.mark.parametrize(
    ("name", "written", "resolved"),
    [
        ("ssl.ca.location", "certs/ca.pem", "below/certs/ca.pem"),
        ("ssl.ca.location", "probe", "probe"),
        ("ssl.key.location", "/etc/key.pem", "/etc/key.pem"),
        ("ssl.certificate.location", "certs/${env:WHO}.pem", "below/certs/me.pem"),
        ("sasl.username", "${file:~/user}", "~/user"),
        ("sasl.password", "${file:secrets/password}", "below/secrets/password"),
    ],
)
def test_client_property_paths_are_relative_to_configuration(name: str, written: str, resolved: str) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
    certificate = {"ssl.key.location": "k", "ssl.certificate.location": "c"}
    client = {"security.protocol": "SASL_SSL", **login, **certificate, name: written}
    Path("below").mkdir()
    settings = write_settings(yaml.safe_dump({"clusters": {"a": {"client": client}}}), "below/kafkaform.yaml")
    assert resolve(settings.clusters["a"].client, {"WHO": "me"}, lambda path: path)[name] == resolved


BAD: dict[str, str | bytes] = {
    "empty": b"",
    "two documents": "---\na: 1\n",
    "a list": b"- 1\n",
    "syntax": "a: [\n",
    "not UTF-8": b"\xef\xbb\xbf# caf\xe9",
    "10 MB": b"#" * 10_000_000,
    "kind": b"apiVersion: kafkaform/v1\nkind: Topic\n",
    "forbidden client properties": (
        "clusters:\n  a:\n    client:\n      bootstrap.servers: 'h:9092'\n"
        "      plugin.library.paths: x.so\n      bootstrap.server: h\n      client.id: ${env:x\n"
    ),
    "no client": "clusters: {a: {}}\n",
    "unknown environment": (
        f"environments: [dev, prod]\nclusters: {{a: {{environment: pord, {CLUSTER}}}}}\n"
        "defaults: {Topic: {overrides: {test: {}}}}\n"
    ),
    "an environment of no cluster": (
        f"clusters: {{a: {{environment: dev, {CLUSTER}}}, b: {{{CLUSTER}}}}}\n"
        "defaults: {Topic: {overrides: {dev: {}, dve: {}}}}\n"
    ),
    "an environment without clusters": "defaults: {Topic: {overrides: {dev: {}}}}\n",
    # One slip, one problem: nothing is known of the names in a list that is none.
    "environments that are no list": (
        f"environments: dev\nclusters: {{a: {{environment: dev, {CLUSTER}}}}}\n"
        "defaults: {Topic: {overrides: {dev: {}}}}\n"
    ),
    "defaults": (
        "defaults:\n  Topic: {partitons: 3, config: {min.isr: 1, retention.ms: x}, retention: 1d}\n"
        "  Group: {}\n"
    ),
    "limits": (
        "limits:\n  topicName: '['\n  recoveryWindow: 3x\n  blastRadius: 30\n  leaderImbalance: 2.5\n"
        "  topics: 0\n  partitons: 5\n"
    ),
    "brokers": f"clusters: {{a: {{brokers: 0, {CLUSTER}}}}}\n",
    "rules": (
        "rules:\n  KF999: info\n  kf109: info\n  KF410: off\n  p: off\n  policy/q: off\n  ACME-1: info\n"
        "policies:\n  - {name: p, message: m, require: {labels: [a]}}\n"
    ),
    "safeguards": (
        "clusters:\n  a: {client: {}, maxPlanAge: soon, lock: maybe, audit: {topic: 1, files: x}}\n"
    ),
    "moves": (
        "clusters:\n"
        "  a: {client: {}, moves: {throttle: 0, batchBytes: 5K, whenBusy: stop, batchPartitions: 0}}\n"
        "  b: {client: {}, moves: {throttle: quick, batch: 3}}\n"
    ),
    "a ban of no hazard": f"clusters: {{dev: {{forbid: [delete, partition-increse], {CLUSTER}}}}}\n",
    "everything at once": (
        "clustrs: {}\nclusters: {a: {client: {zzz: 7}, forbid: none}}\nundeclared: drop\n"
    ),
}
BAD |= {
    f"a share of {share}": f"limits: {{blastRadius: {share}}}\n"
    for share in ("0", "1.01", "0%", "101%", "x", "-0.1", ".nan", "-30%")
}
BAD |= {line: line for line in ("protected: [Topic/a]", "owns: {names: [topics/a]}", "ignore: [group/a]")}
"""Configurations that are refused: invalid.txt has the places."""


def test_invalid_configuration_messages_match_golden(golden: SnapshotAssertion) -> None:
    assert list_texts({name: list_problems(text) for name, text in BAD.items()}) == golden(name="invalid.txt")


def test_safeguards_and_moves_of_a_cluster_are_read() -> None:
    found = write_settings("""
clusters:
  a:
    client: {}
    lock: false
    audit: {topic: false, file: a.jsonl}
    verifyKey: k.pem
    maxPlanAge: 1d
    moves: {throttle: 20MB/s, batchPartitions: 7, batchBytes: 1GiB, timeout: 2h, whenBusy: wait}
  b: {client: {}, moves: {throttle: none}}
  c: {client: {}}
""")
    a, b, c = found.clusters.values()
    assert (a.lock, a.audit) == (False, AuditSettings(topic=False, file=Path("a.jsonl")))
    assert (a.verify_key, a.max_plan_age) == (Path("k.pem"), 86_400_000)
    assert (c.lock, c.audit, c.verify_key, c.max_plan_age) == (True, AuditSettings(), None, None)
    assert not AuditSettings(topic=False).enabled
    assert a.moves == MoveOptions(20_000_000, 7, 1024**3, 7200, when_busy=WhenBusy.WAIT)
    assert (b.moves, c.moves) == (MoveOptions(throttle=None), MoveOptions())


@pytest.mark.parametrize(
    ("given", "share"), [("0.3", 0.3), ("1", 1), ("30%", 0.3), ("'2.5 %'", 0.025), ("100%", 1)]
)
def test_share_is_fraction_or_percentage(given: str, share: float) -> None:
    found = write_settings(f"limits: {{blastRadius: {given}, diskReserve: {given}}}\n{ONE_CLUSTER}")
    assert found.limits.blast_radius == pytest.approx(share)
    assert found.limits.disk_reserve == found.clusters["a"].moves.disk_reserve == pytest.approx(share)


def test_disk_reserve_has_default_and_may_be_zero() -> None:
    assert write_settings(ONE_CLUSTER).clusters["a"].moves.disk_reserve == 0.15
    for given in ("0", "0%"):
        found = write_settings(f"limits: {{diskReserve: {given}}}\n{ONE_CLUSTER}")
        assert found.clusters["a"].moves.disk_reserve == 0
    (problem,) = list_problems("limits: {diskReserve: 15}\n")
    assert "limits.diskReserve: 15 is not a share" in problem


def test_cluster_is_selected_by_name_or_as_only_cluster() -> None:
    two = write_settings(f"clusters: {{dev: {{{CLUSTER}}}, prod: {{{CLUSTER}}}}}\n")
    prod = two.select_cluster("prod")
    assert prod is not None
    assert prod.name == "prod"
    with pytest.raises(UsageError, match="several clusters") as several:
        two.select_cluster(None)
    assert "--cluster" in str(several.value.hint)
    with pytest.raises(UsageError) as empty:
        write_settings("").select_cluster("x")
    assert empty.value.hint == "add it below clusters:"
