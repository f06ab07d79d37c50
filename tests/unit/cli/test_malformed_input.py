"""Malformed input: every field with values of every wrong shape, and files that are none."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from kafkaform import rules
from kafkaform.cluster.transport.tokens import TokenSource, make_token_source
from kafkaform.config.client_properties.transport import SaslSettings, TokenFileSettings
from kafkaform.config.manifests.loader import InvalidManifests, load_all
from kafkaform.config.settings import read_settings
from kafkaform.core.errors import AuthenticationFailed, InvalidInput, Problem, UsageError
from kafkaform.core.files import read_file
from kafkaform.core.model import Create, Status
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.schema_files import load_schema
from kafkaform.core.secrets import Reference, UnreadableSecret, read_secret
from kafkaform.plan.plan_file import plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.resources import KINDS
from spark_validation import submit
from spark_validation.errors import JobFailed, ReadingFailed
from spark_validation.kafka_client import executor_properties
from tests.support.cli.project import ROOT, Project, command, environment, manifest, run_in_process
from tests.support.plans.scenes import topic

_MISSING = object()
_SHAPES: list[Any] = [
    *(_MISSING, None, True, 1.5, "", "x", {}, {"x": None}, [], [None], ["x", "x"], [{}], [[]])
]
"""The values that take the place of each one."""
_TURNS = pytest.mark.parametrize(
    "turns",
    [{0}, pytest.param({1, 2}, marks=pytest.mark.nightly("the other values in each place"))],
    ids=["some values", "other values"],
)
"""By day every place gets a third of the values, in turn."""
_CONFIG = """
apiVersion: kafkaform/v1
kind: Config
manifests: [topics]
environments: [dev]
clusters:
  c:
    environment: dev
    clusterId: x
    labels: {region: eu, tier: 1}
    brokers: 1
    client: {bootstrap.servers: "localhost:9092", client.id: "${env:X}"}
    forbid: [delete]
    lock: true
    audit: {topic: true, file: audit.jsonl}
    verifyKey: key.pem
    maxPlanAge: 24h
    authorizer: {superUsers: ["User:a"], principal: "User:a", allowEveryoneIfNoAclFound: true}
    notify: {url: "${env:X}", headers: {Authorization: "Bearer ${env:X}"}}
    moves: {throttle: 50MB, batchPartitions: 1, batchBytes: 1GiB, timeout: 2h, whenBusy: wait}
stages: [["c"], {clusters: ["region=eu"], waitHealthy: 10m}]
defaults:
  Topic: {retention: {time: 7d}, config: {segment.ms: 1d}, overrides: {dev: {keyed: true}}}
  ConsumerGroup: {members: {max: 2}, config: {consumer.session.timeout.ms: 50s}}
  ClientQuota: {config: {producer_byte_rate: 1MiB}}
  User: {deletionProtection: true}
  Access: {deletionProtection: true}
profiles:
  o: {}
  p:
    extends: o
    Topic: {retention: {time: 7d}, overrides: {c: {keyed: true}}}
    ConsumerGroup: {members: {max: 2}}
    Subject: {compatibility: FULL}
    limits: {retention.ms: {min: 1d, max: 30d}, cleanup.policy: {in: [delete]}}
profilesFrom: profiles.yaml
costs: {currency: EUR, gigabyteMonth: 0.1, partitionMonth: 0.02}
undeclared: keep
owns: {names: [x], principals: ["User:x"]}
protected: [x]
ignore: [x]
rules: {KF101: error, policy/p: warning}
skew: {classArchive: off}
limits:
  {topicName: "[a-z]+", topics: 1, partitions: 1, recoveryWindow: 3d, blastRadius: 30%, leaderImbalance: 30,
   diskReserve: 0.15}
policies:
  - name: p
    kind: Topic
    match: {name: "*", labels: {team: a}, except: [x], fields: {partitions: {min: 1}}}
    environments: [dev]
    severity: error
    message: text
    require:
      name: x
      labels: [team]
      fields: {config.retention.ms: {min: 1d, max: 7d, multipleOf: 1, in: [1d], notIn: [2d]}}
"""
_SPECS = {
    "Topic": """
        partitions: 1
        replicationFactor: 1
        placement: {strategy: static, replicas: [[1]]}
        retention: {time: 7d, bytes: 1GiB}
        config: {cleanup.policy: [delete], segment.ms: 1d}
        keyed: true
        deletionProtection: true
        state: present
        undeclared: keep
        skew: {maxPartitionRatio: 2.0, maxKeyShare: 0.05, by: bytes, missingKeys: ignore}
        access: {read: ["team:a"], write: ["User:a"]}
        recreate: 3dBzWnVfRkWvGk1yQn2c8A
        succeeds: s
        quietPeriod: 5m
        recoveryWindow: 7d
        closeWrites: true
        profile: p
    """,
    "ConsumerGroup": """
        topics: [t]
        protocol: classic
        members: {expected: 1, max: 2}
        config: {consumer.session.timeout.ms: 50s}
        client: {max.poll.records: 200, partition.assignment.strategy: [range]}
        processing: {maxTimePerRecord: 200ms}
        offsets: {initial: earliest}
        lag: {maxRecords: 5, maxTime: 1h}
        guarantees: {delivery: at-least-once}
        downtime: {max: 1h}
        profile: p
        deletionProtection: true
        state: present
        undeclared: keep
    """,
    "ClientQuota": """
        entity: {user: a, clientId: {default: true}, ip: x}
        config: {producer_byte_rate: 1MiB, request_percentage: 200%}
        deletionProtection: true
        state: present
        undeclared: keep
    """,
    "User": """
        scram: [{mechanism: SCRAM-SHA-256, iterations: 4096, password: "${env:X}"}]
        deletionProtection: true
        state: present
    """,
    "Subject": """
        schemaType: AVRO
        schema: '{"type": "record", "name": "R", "fields": []}'
        references: [{name: a, subject: b, version: 1}]
        compatibility: FULL
        profile: p
        deletionProtection: true
        state: present
    """,
    "Access": """
        principals: ["User:u"]
        hosts: [10.0.0.1]
        produces: [t, {prefix: p}]
        consumes: [{group: g, topics: [t, {prefix: p}]}, {group: {prefix: p}, topics: [t]}]
        shareGroups: [{group: g, topics: [t]}]
        transactional: [x, {prefix: p}]
        streams: {applicationId: s, reads: [t], writes: [t]}
        connect: {groupId: s, storage: {config: c, offset: o, status: s}, reads: [t], writes: [t]}
        kafkaform: apply
        manages: [t]
        acls:
          - {resource: topic, name: t, operations: [Read], permission: deny, hosts: ["*"]}
          - {resource: group, prefix: t, operations: [Read]}
          - {resource: cluster, operations: [Alter]}
        deletionProtection: true
        state: present
    """,
}
"""A spec of each kind with every field."""
_NAMES = {"ClientQuota": "user=a,client-id=<default>"}


def _build_manifests(kind: str) -> Iterator[dict[str, Any]]:
    """Yield a manifest with every field, and one with every field in its overrides."""
    spec = yaml.safe_load(_SPECS[kind])
    annotations = {"kafkaform/allow": "delete: x", "kafkaform/waive.KF101": "x"}
    metadata = {"name": _NAMES.get(kind, "t"), "labels": {"team": "a"}, "annotations": annotations}
    head = {"apiVersion": "kafkaform/v1", "kind": kind}
    yield {**head, "metadata": metadata, "spec": {**spec, "overrides": {"dev": {"state": "present"}}}}
    entity = {"entity": spec.pop("entity")} if "entity" in spec else {}
    spec.pop("profile", None)
    principals = {"principals": spec["principals"]} if "principals" in spec else {}
    metadata = {"name": metadata["name"]}
    yield {**head, "metadata": metadata, "spec": {**entity, **principals, "overrides": {"dev": spec}}}


def _list_paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, below in items:
        yield from _list_paths(below, (*at, key))


def _replace(value: Any, at: tuple[Any, ...], shape: Any) -> Any:
    if not at:
        return shape
    changed = value.copy()
    if shape is _MISSING and len(at) == 1:
        del changed[at[0]]
    else:
        changed[at[0]] = _replace(value[at[0]], at[1:], shape)
    return changed


def _list_malformed(document: dict[str, Any], turns: set[int]) -> Iterator[tuple[tuple[Any, ...], list[str]]]:
    for place, at in enumerate(_list_paths(document)):
        # Overrides are read by the same functions as the rest.
        shapes = _SHAPES[:4] if "overrides" in at[:-2] else _SHAPES
        shapes = shapes if at else shapes[1:]
        chosen = [shape for number, shape in enumerate(shapes, place) if number % 3 in turns]
        yield at, [json.dumps(_replace(document, at, shape)) for shape in chosen]


@_TURNS
@pytest.mark.parametrize("kind", KINDS)
def test_malformed_manifest_is_located_and_hides_no_others(
    kind: str, turns: set[int], tmp_path: Path
) -> None:
    manifests = [*_build_manifests(kind)]
    spec = load_schema(KINDS[kind].schema)["$defs"]["spec"]["properties"]
    assert set(manifests[0]["spec"]) == set(spec), "the test must have every field"
    (tmp_path / "kafkaform.yaml").write_text(_CONFIG)
    (tmp_path / "profiles.yaml").write_text("apiVersion: kafkaform/v1\nkind: Config\nprofiles: {q: {}}\n")
    settings = read_settings(tmp_path / "kafkaform.yaml")
    (tmp_path / "topics").mkdir()
    head = "apiVersion: kafkaform/v1\nkind: Topic\n"
    (tmp_path / "topics/other.yaml").write_text(
        head + "metadata: {name: a b}\nspec: {partitions: 1, replicationFactor: 1}\n"
        "---\n" + head + "metadata: {name: c}\nspec: {partitons: 1}\n"
    )
    contexts = [settings.build_context("dev")]
    for at, texts in chain.from_iterable(_list_malformed(each, turns) for each in manifests):
        (tmp_path / "topics/malformed.yaml").write_text("\n---\n".join(texts))
        try:
            with pytest.raises(InvalidManifests) as caught:
                load_all(settings.manifests, contexts)
            (desired,) = caught.value.readable
            context = settings.build_rule_context(tuple(desired), "dev", subset=False)
            findings = [*rules.check(context, settings.rules, more=settings.policies)]
        except Exception as error:
            raise AssertionError(f"{at}: {error!r}") from error
        places = [problem.location for problem in caught.value.problems]
        assert all(place is not None and place.line for place in places), (at, places)
        assert any(place.file.endswith("other.yaml") for place in places if place), at
        assert "KF101" in {found.code for found in findings if str(found.ref) == "Topic/a b"}, at


@_TURNS
def test_malformed_configuration_is_located(turns: set[int], tmp_path: Path) -> None:
    given = yaml.safe_load(_CONFIG)
    assert set(given) == set(load_schema("config")["properties"]), "the test must have every field"
    file = tmp_path / "kafkaform.yaml"
    (tmp_path / "profiles.yaml").write_text("apiVersion: kafkaform/v1\nkind: Config\nprofiles: {q: {}}\n")
    # One section at a time, as a check of the whole takes longer than that of the parts.
    parts = [{name: given[name] for name in ("apiVersion", "kind", section)} for section in given]
    for at, texts in chain.from_iterable(_list_malformed(part, turns) for part in parts):
        for text in texts:
            file.unlink(missing_ok=True)  # truncating a file takes longer than reading it
            file.write_text(text)
            problems: list[Problem] = []
            try:
                read_settings(file).build_context(None)
            except InvalidInput as error:
                problems = [*error.problems]
            except UsageError:
                continue  # overrides of defaults without an environment
            except Exception as error:
                raise AssertionError(f"{at}: {error!r}\n{text}") from error
            assert all(problem.location is not None for problem in problems), (at, text, problems)


def _make_sparse(file: Path) -> None:
    file.touch()
    os.truncate(file, 1 << 40)


FLAWS: dict[str, tuple[Callable[[Path], object], str]] = {
    "named pipe": (os.mkfifo, "not a regular file"),
    "device": (lambda file: file.symlink_to(os.devnull), "not a regular file"),
    "sparse file": (_make_sparse, "larger than"),
}
CLIENTS = {
    "secret": "client.id: '${file:odd.json}'",
    "authorities": "security.protocol: SSL, ssl.ca.location: odd.json",
    "revoked certificates": "security.protocol: SSL, ssl.crl.location: odd.json",
    "certificate": "security.protocol: SSL, ssl.certificate.location: odd.json, ssl.key.location: plan.json",
    "key": "security.protocol: SSL, ssl.key.location: odd.json, ssl.certificate.location: plan.json",
    "key store": "security.protocol: SSL, ssl.keystore.location: odd.json, ssl.keystore.password: x",
    "authorities of the endpoint": "security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER, "
    "sasl.oauthbearer.method: oidc, "
    "sasl.oauthbearer.client.id: me, sasl.oauthbearer.client.secret: x, https.ca.location: odd.json, "
    "sasl.oauthbearer.token.endpoint.url: 'https://127.0.0.1:1'",
}
COMMANDS = {
    "manifest": ["validate", "odd.json"],
    "configuration": ["validate", "topics", "--config", "odd.json"],
    "saved plan": ["show", "odd.json"],
    "plan to apply": ["apply", "odd.json", "--auto-approve"],
    "reviewed plan": ["apply", "topics", "--reviewed", "odd.json", "--auto-approve"],
    "public keys": ["show", "plan.json", "--verify-key", "odd.json"],
    "private key": ["plan", "topics", "--out", "new.json", "--sign-key", "odd.json"],
    "command config": ["plan", "topics", "--command-config", "odd.json"],
    "offsets": ["reset", "g", "--from-file", "odd.json"],
    "record": ["history", "--file", "odd.json"],
    "import": ["import", "odd.json", "--from", "strimzi"],
    "comment": ["ci", "comment", "odd.json", "--pull-request", "1", "--repository", "o/r"],
    "skew report": ["plan", "topics", "--skew", "odd.json"],
}


@pytest.fixture(params=FLAWS)
def reason(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make an unsuitable file `odd.json` in the working directory; return what is to be said of it."""
    monkeypatch.chdir(tmp_path)
    make, text = FLAWS[request.param]
    make(tmp_path / "odd.json")
    return text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("given", [*COMMANDS, *CLIENTS])
def test_named_pipe_is_refused_without_blocking(given: str, tmp_path: Path, servers: str) -> None:
    """All are read by the common reader: see the last test; secrets are read with every flaw."""
    os.mkfifo(tmp_path / "odd.json")
    project = Project(tmp_path, servers, "")
    plan = Plan("c", (PlannedChange(Create(topic("t"), {"partitions": 1}), Status.PLANNED),))
    header = PlanHeader("0.1.0", None, None, None, "2026-11-01T00:00:00Z")
    project.write("plan.json", plan_to_json(plan, header))
    client = f"{{bootstrap.servers: '{servers}', {CLIENTS.get(given, '')}}}"
    text = f"apiVersion: kafkaform/v1\nkind: Config\nclusters: {{dev: {{client: {client}}}}}\n"
    project.write("kafkaform.yaml", text)
    project.topic("a")
    call = project.run(*COMMANDS.get(given, ["plan", "topics"]), env={"GITHUB_TOKEN": "x"}).needs(1)
    assert "odd.json" in call.words
    assert "not a regular file" in call.words


def test_unsuitable_secret_file_is_refused(reason: str) -> None:
    with pytest.raises(UnreadableSecret, match=reason):
        read_secret(Reference("file", "odd.json"))
    token_file = TokenFileSettings(Path("odd.json"))
    with pytest.raises(AuthenticationFailed, match=reason):
        cast("TokenSource", make_token_source(SaslSettings("OAUTHBEARER", tokens=token_file))).token()


def test_submitted_job_refuses_unsuitable_files(reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--out", "x", "--bootstrap-server", "127.0.0.1:1"]
    with pytest.raises(SystemExit):
        submit.run([*arguments, "--policies", "odd.json"])
    assert reason in capsys.readouterr().err
    given = submit.parse_arguments([*arguments, "t", "--command-config", "odd.json"])
    with pytest.raises(JobFailed, match=reason):
        submit.client_properties(given)


def test_spark_and_librdkafka_do_not_open_named_pipes(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    os.mkfifo(tmp_path / "records/a.json")
    error, *_ = run_in_process("skew", "--from", "records", cwd=tmp_path).needs(1).said.splitlines()
    assert error == f"Error: --from records: {tmp_path}/records/a.json is not a regular file"
    os.mkfifo(tmp_path / "ca.pem")
    with pytest.raises(ReadingFailed, match="not a regular file"):
        executor_properties({"ssl.ca.location": str(tmp_path / "ca.pem")}, local=True)


@pytest.mark.parametrize(
    "script",
    [
        '"$@" <(cat t.yaml; head -c 200000 /dev/zero | tr "\\0" "#")',
        'cat t.yaml | "$@" -',
        'cat t.yaml | "$@" /dev/stdin',
    ],
)
def test_pipe_given_on_command_line_is_read(script: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(manifest("orders", {"partitions": 1, "replicationFactor": 1}) + "#")
    shell = ["bash", "-c", script, "bash", *command("validate")]
    done = subprocess.run(shell, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 resource: valid.\n"), done


def test_file_without_size_is_read_completely() -> None:
    assert read_file("/proc/self/status").startswith(b"Name:")


OWN_FILES = {
    # Parts of the installed packages.
    "kafkaform/config/starter.py",
    "kafkaform/core/kafka_configs.py",
    "kafkaform/core/schema_files.py",
    "kafkaform/devcluster/jars/cache.py",
    "kafkaform/report/html.py",
    "kafkaform/rules/plugins.py",
    "spark_validation/configuration.py",
    # Files that only kafkaform writes: those of a development cluster, and of Spark's start.
    "kafkaform/devcluster/processes.py",
    "kafkaform/devcluster/state.py",
    "spark_validation/class_archive.py",
    "spark_validation/jvm.py",
}
READERS = {"spark_validation/text_files.py", "spark_validation/submit.py"}
"""Common readers; the latter reads four bytes of a regular file."""


def test_user_files_are_opened_by_common_readers_only() -> None:
    opening = re.compile(r"\.read_(?:text|bytes)\([^)]|\b(?:[a-z_]+)\.read_bytes\(|[\"']rb[\"']|FileIO")
    modules = (path for room in ("kafkaform", "spark_validation") for path in (ROOT / room).rglob("*.py"))
    found = {str(path.relative_to(ROOT)) for path in modules if opening.search(path.read_text("utf-8"))}
    assert found == OWN_FILES | READERS
