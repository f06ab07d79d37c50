"""From manifest files to desired resources: every problem in one run, or what was meant."""

import os
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifest_text import build_live_manifest
from kafkaform.config.manifests.loader import Context, load, load_all, merge
from kafkaform.core.errors import InvalidInput, Problem
from kafkaform.core.model import Desired, Location, Observed, ResourceRef, Undeclared
from kafkaform.resources.base import Layer
from kafkaform.resources.client_quota.entity import QuotaEntity
from tests.support.golden import list_texts

HEAD = "apiVersion: kafkaform/v1\nkind: Topic\n"


def topic(spec: str, name: str = "t", metadata: str = "") -> str:
    """A manifest whose spec starts in line 4, column 7 (or 5, with more metadata)."""
    return f"{HEAD}metadata: {{name: {name}{metadata}}}\nspec: {spec}\n"


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    return tmp_path


def write_files(files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = Path("t") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def list_problems(
    files: Mapping[str, str | bytes], context: Context | None = None, paths: tuple[str, ...] = ("t",)
) -> list[str]:
    write_files(files)
    with pytest.raises(InvalidInput) as caught:
        load(map(Path, paths), context or Context())
    return [str(problem) for problem in caught.value.problems]


def list_places(problems: list[str]) -> list[str]:
    """Return the file, line and column of each problem, below folder t."""
    return [problem.split(": ")[0].removeprefix("t/") for problem in problems]


def load_one(manifest: str, context: Context | None = None) -> Desired:
    write_files({"a.yaml": manifest})
    (desired,) = load([Path("t")], context or Context())
    return desired


COUNTS = "partitions: 1, replicationFactor: 1"


BAD_SPECS = {
    "unknown config": "config: {cleanup.polcy: delete}",
    "internal config": "config: {internal.segment.bytes: 1000000}",
    "throttle": "config: {leader.replication.throttled.replicas: '*'}",
    "type": "config: {min.insync.replicas: two, preallocate: yes, max.message.bytes: 1.5}",
    "range": "config: {min.insync.replicas: 0, min.cleanable.dirty.ratio: 1.5, segment.ms: -1}",
    "choice": "config: {cleanup.policy: compat}",
    "unit": "retention: 7 days, config: {segment.bytes: 1G}",
    "a number in another base": "retention: {time: 0x10}, config: {segment.ms: 1e3}",
    "placeholders": "retention: {days}, keyed: {keyed}, state: {state}, config: {retention.bytes: {size}}",
    "both spellings": "retention: 7d, config: {retention.ms: 604800000}",
    "both spellings in one override": "overrides: {dev: {retention: 7d, config: {retention.ms: ~}}}",
    "a placement without replicas": "placement: {strategy: static}",
    "a broker twice": "placement: {strategy: static, replicas: [[1, 2, 3], [1, 2, 2], [1, 2, 3]]}",
    "a placement of other counts": "placement: {strategy: static, replicas: [[1], [1, 2]]}",
    "a placement by no strategy": "placement: {strategy: rackaware}",
    "a list for one value": "config: {min.insync.replicas: [2]}",
    "reference": "retention: '${env:RETENTION}'",
    "configs of brokers": (
        "config: {log.retention.hours: 168, log.retention.minutes: 90, log.retention.ms: 1000, "
        "log.retention.bytes: 1GiB, log.segment.bytes: 1GiB, log.cleanup.policy: compact, "
        "log.roll.hours: 24, message.max.bytes: 1MiB, num.partitions: 6, default.replication.factor: 3}"
    ),
}


WHOLE = topic(f"{{{COUNTS}}}")

BAD_FILES: dict[str, str | bytes | dict[str, str | bytes]] = {
    "fields of other parts": {
        "a.yaml": topic(f"{{{COUNTS}, retention.ms: 7d}}\npartitions: 3", metadata=", spec: {}"),
        "b.yaml": topic(f"{{{COUNTS}, config: [retention.ms: 7d]}}", "b"),
        "c.yaml": topic(f"{{{COUNTS}, config: {{retention: {{ms: 7d}}}}}}", "1234"),
    },
    "default of a quota": "apiVersion: kafkaform/v1\nkind: ClientQuota\nmetadata: {name: user=<default>}\n"
    "spec: {entity: {user: {default: false}}, config: {producer_byte_rate: 1}}\n",
    "placeholders elsewhere": {
        "a.yaml": "apiVersion: {version}\nkind: Topic\nmetadata: {name: a}\nspec: {}\n",
        "b.yaml": WHOLE.replace("kind: Topic", "kind: {kind}"),
    },
    "template statements": {
        f"{number}.yaml": f"{HEAD}metadata:\n  {line}\n  labels: {{a: b}}\n"
        for number, line in enumerate(
            ("name: {{ .x }}", "{{- include 'x' . }}", "{% if x %}", "<% if x %>", "{# x #}")
        )
    },
    "fractions and exponents": topic(
        "{partitions: 1e3, replicationFactor: 12.0, overrides: {dev: {partitions: -1e0}}}"
    ),
    "resources of other tools": {
        "a.yaml": "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaTopic\nmetadata: {name: t}\n",
        "b.yaml": "apiVersion: kafka.jikkou.io/v1beta2\nkind: KafkaUser\nmetadata: {name: t}\n",
    },
    "duplicate resource across files": {"a.yaml": WHOLE, "b/c.yml": WHOLE},
    "duplicate resource in one file": f"{WHOLE}---\n{WHOLE}",
    "empty file": {"a.yaml": "", "b.yaml": WHOLE},
    "no mapping": f"{WHOLE}---\n- 1\n---\ntext\n---\n7\n",
    "unknown kind": {
        "a.yaml": WHOLE.replace("Topic", "Topik"),
        "b.yaml": WHOLE.replace("Topic", "Deployment"),
    },
    "no kind": "metadata: {name: t}\n",
    "unknown version": {
        "a.yaml": WHOLE.replace("/v1", "/v2"),
        "b.yaml": WHOLE.replace("kafkaform/v1", "1.0", 1).replace("t}", "u}"),
    },
    "consent to a hazard that there is not": topic(
        f"{{{COUNTS}}}", metadata=", annotations: {kafkaform/allow: 'retention-cutt: why'}"
    ),
    "consent without a reason": topic(
        f"{{{COUNTS}}}", metadata=", annotations: {kafkaform/allow: retention-cut}"
    ),
    "reference in a name": topic(f"{{{COUNTS}}}", name="'${TEAM}.t'"),
    "large file": WHOLE + "#" * 10_000_000,
    "not UTF-8": WHOLE.encode() + b"# caf\xe9\n",
    "alias bomb": "\n".join(f"{c}: &{c} [{','.join([f'*{chr(ord(c) - 1)}'] * 9)}]" for c in "bcdefghi"),
}


def test_invalid_manifest_messages_match_golden(golden: SnapshotAssertion) -> None:
    texts = {
        name: list_problems({"a.yaml": topic(f"{{{COUNTS}, {spec}}}")}, Context(None, "dev"))
        for name, spec in BAD_SPECS.items()
    }
    for name, files in BAD_FILES.items():
        for path in Path("t").iterdir():
            path.unlink() if path.is_file() else rmtree(path)
        texts[name] = list_problems(files if isinstance(files, dict) else {"a.yaml": files})
    assert list_texts(texts) == golden(name="invalid.txt")


def test_number_of_values_in_manifests_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.config.manifests.loader.MAX_VALUES", 30)
    files = {f"{name}.yaml": topic(f"{{{COUNTS}}}", name) for name in "abcd"}
    (problem,) = list_problems(files)
    assert problem.startswith("t/c.yaml:1:1: ")
    assert "more than 30 values" in problem


def test_file_is_not_searched_for_each_document(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []
    monkeypatch.setattr("kafkaform.config.manifests.loader.find_template", searches.append)
    write_files({"a.yaml": "---\n".join(topic(f"{{{COUNTS}}}", f"t{number}") for number in range(50))})
    assert len(load([Path("t")], Context())) == 50
    assert len(searches) == 1


SPEC = f"spec: {{{COUNTS}}}\n"
TEMPLATES = [
    *("{team}", "{{ .Values.x }}", "{{x}}", "{% x %}", "<%= x %>", "${{x}}", "$TEAM", "$(TEAM)"),
    *("%{x}", "{0}", "%TEAM%", "[[ team ]]", "<TEAM>"),
]


@pytest.mark.parametrize("part", TEMPLATES)
def test_unescaped_template_in_name_is_refused(part: str) -> None:
    for name in (f"'a-{part}'", f"a-{part}", f"{part}-a", part):
        (problem, *_) = list_problems(
            {"a.yaml": f"{HEAD}metadata: {{name: t, labels:\n  {{n: {name}}}}}\n{SPEC}"}
        )
        assert problem.startswith("t/a.yaml:4:")
        assert "this is a template" in problem
    # People may write to each other about them.
    assert load_one(topic(f"{{{COUNTS}}}", metadata=f", annotations: {{note: 'of {part}'}}"))
    # An application may replace a part of its own settings.
    group = "kind: ConsumerGroup\nmetadata: {name: g}\nspec: {topics: [t], client: {client.id: 'a-{pod}'}}\n"
    assert load_one(f"apiVersion: kafkaform/v1\n{group}").ref.name == "g"
    ref = ResourceRef("ClientQuota", QuotaEntity((("user", f"{part}-a"),)).name)
    manifest = build_live_manifest(Observed(ref, None, {"config.producer_byte_rate": "1"}))
    assert [load_one(text).ref for text in (manifest.to_yaml(), manifest.to_json())] == [ref, ref]


def test_merge_conflict_is_located() -> None:
    conflict = f"<<<<<<< HEAD\n{SPEC}=======\n{SPEC}>>>>>>> other\n"
    (problem,) = list_problems({"a.yaml": f"{HEAD}metadata: {{name: t}}\n{conflict}"})
    assert problem.startswith("t/a.yaml:4:1: merge conflict marker")
    # Text may have a line that looks like one.
    assert load_one(topic(f"{{{COUNTS}}}", metadata=", annotations: {note: '\n\n<<<<<<< HEAD\n\n'}"))


def test_paths_without_manifests_are_located() -> None:
    (empty,) = list_problems({})
    assert empty.startswith("t:1:1: ")
    assert "`kafkaform init`" in empty
    assert "`kafkaform import`" in empty
    assert list_places(list_problems({}, paths=("nowhere/a.yaml",))) == ["nowhere/a.yaml:1:1"]
    assert list_places(list_problems({}, paths=("n" * 300,))) == [f"{'n' * 300}:1:1"]
    (Path("t") / "gone.yaml").symlink_to("nothing")
    assert list_places(list_problems({})) == ["gone.yaml:1:1"]


def test_manifests_are_visible_yaml_files_of_folder() -> None:
    write_files(
        {"a.yaml": WHOLE, ".hidden.yaml": "x", ".git/b.yaml": "x", "kafkaform.yaml": "x", "notes.txt": "x"}
    )
    write_files({"deep/er/c.yml": topic(f"{{{COUNTS}}}", "u")})
    Path("t/deep/loop").symlink_to("..")
    Path("t/deep/same.yaml").symlink_to("../a.yaml")
    found = load([Path("t"), Path("t/a.yaml"), Path("t/../t")], Context())
    assert [d.ref for d in found] == [ResourceRef("Topic", "t"), ResourceRef("Topic", "u")]
    assert [d.location for d in found] == [Location("t/a.yaml", 1, 1), Location("t/deep/er/c.yml", 1, 1)]


@pytest.mark.parametrize(
    "target", ["../secret.yaml", "../secrets", "../t2", "t/../../secret.yaml", "../../nowhere/a.yaml"]
)
def test_link_out_of_the_folder_is_not_followed(target: str, repository: Path) -> None:
    # A pull request could otherwise have CI print any file of its machine in an error message.
    write_files({"a.yaml": WHOLE})
    for folder in ("secrets", "t2"):  # t2: its path starts with that of the folder
        (repository / folder).mkdir()
        (repository / folder / "b.yaml").write_text("password: hunter2\n")
    (repository / "secret.yaml").write_text("password: hunter2\n")
    Path("t/c.yaml").symlink_to(target)
    Path("t/d.yaml").symlink_to(repository / "secret.yaml")
    Path("t/e").mkdir()
    Path("t/e/f.yaml").symlink_to("../d.yaml")
    found = list_problems({})
    assert [problem for problem in found if "hunter2" in problem or "password" in problem] == []
    assert list_places(found) == ["c.yaml:1:1", "d.yaml:1:1", "e/f.yaml:1:1"]
    assert all("is a link out of the manifests folder" in problem for problem in found)


def test_mounted_config_map_is_read() -> None:
    # Kubernetes mounts one as links by way of a hidden folder, which it replaces as a whole.
    write_files({"..2026_11_01/a.yaml": WHOLE, "..2026_11_01/b.yaml": topic(f"{{{COUNTS}}}", "u")})
    Path("t/..data").symlink_to("..2026_11_01")
    for name in ("a.yaml", "b.yaml"):
        Path("t", name).symlink_to(f"..data/{name}")
    found = load([Path("t")], Context())
    assert [str(d.location) for d in found] == ["t/a.yaml:1:1", "t/b.yaml:1:1"]


def test_named_pipe_is_refused_without_waiting() -> None:
    os.mkfifo("t/pipe.yaml")
    assert list_places(list_problems({"a.yaml": WHOLE})) == ["pipe.yaml:1:1"]


def test_given_path_may_be_a_link(repository: Path) -> None:
    (repository / "real").mkdir()
    (repository / "real/a.yaml").write_text(WHOLE)
    (repository / "real/same.yaml").symlink_to("a.yaml")
    Path("t/folder").symlink_to("../real")
    Path("t/b.yaml").symlink_to("../real/a.yaml")
    for path in ("t/folder", "t/b.yaml"):
        assert [d.ref.name for d in load([Path(path)], Context())] == ["t"]


def test_unreadable_file_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # Denied by the test, because root may read everything.
    def deny_access(path: Path, *_: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    Path("t/a.yaml").touch()
    for target, place in (
        ("kafkaform.config.manifests.files.read_file", "t/a.yaml"),
        ("os.scandir", "t"),
        ("pathlib.Path.is_dir", "t"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, deny_access)
            assert list_problems({}) == [f"{place}:1:1: cannot be read: Permission denied"]


LAYERED = f"""{{{COUNTS}, retention: 2d, config: {{segment.ms: 2h, max.message.bytes: 2MiB}},
  overrides: {{prod: {{partitions: 9, config: {{retention.ms: 1d, max.message.bytes: ~}}}}, dev: {{}}}}}}"""
ENVIRONMENTS = ("dev", "prod")


def test_more_specific_layer_overrides() -> None:
    base: Layer = {
        "partitions": 5,
        "keyed": False,
        "config": {"retention.ms": "5", "segment.ms": "5", "segment.bytes": "5", "preallocate": "true"},
    }
    over: Layer = {"keyed": True, "config": {"segment.bytes": "6", "preallocate": None}}
    write_files({"a.yaml": topic(LAYERED)})
    contexts = [
        Context(ENVIRONMENTS, "dev", {"Topic": (base,)}),
        Context(ENVIRONMENTS, "prod", {"Topic": (base, over)}, Undeclared.KEEP),
    ]
    (dev,), (prod,) = load_all([Path("t")], contexts)
    assert dev.state == {
        "partitions": 1,
        "replicationFactor": 1,
        "config.max.message.bytes": "2097152",
        "config.preallocate": "true",
        "config.retention.ms": "172800000",
        "config.segment.bytes": "5",
        "config.segment.ms": "7200000",
    }
    assert prod.state == {
        **dev.state,
        "partitions": 9,
        "config.max.message.bytes": None,
        "config.preallocate": None,
        "config.retention.ms": "86400000",
        "config.segment.bytes": "6",
    }
    assert (dev.intent.keyed, dev.intent.undeclared) == (False, Undeclared.REPORT)
    assert (prod.intent.keyed, prod.intent.undeclared) == (True, Undeclared.KEEP)


def test_overrides_without_environment_are_refused() -> None:
    manifest = topic(f"{{{COUNTS}, overrides: {{dev: {{}}, prd: {{}}}}}}")
    (problem,) = list_problems({"a.yaml": manifest})
    assert problem.startswith("t/a.yaml:4:45: ")
    assert "--environment (dev, prd)" in problem
    (problem,) = list_problems({}, Context(ENVIRONMENTS, "dev"))
    assert problem.startswith("t/a.yaml:4:66: ")
    assert "did you mean 'prod'?" in problem
    assert list_places(list_problems({}, Context((), "dev"))) == ["a.yaml:4:57", "a.yaml:4:66"]
    # Without a configuration file there is no closed list.
    assert load([Path("t")], Context(None, "dev"))
    write_files({"a.yaml": topic("{partitions: 1, config: {retention.ms: x}}")})
    with pytest.raises(InvalidInput) as caught:
        load_all([Path("t")], [Context(ENVIRONMENTS, name) for name in ENVIRONMENTS])
    assert len(caught.value.problems) == 2
    assert str(caught.value) == "2 problems in the input"
    low: Layer = {"a": 1, "config": {"x": "1", "y": "1"}}
    high: Layer = {"b": 2, "config": {"y": None}}
    assert merge([low, high]) == {"a": 1, "b": 2, "config": {"x": "1", "y": None}}
    assert low == {"a": 1, "config": {"x": "1", "y": "1"}}


FRAGMENTS = """\
apiVersion: kafkaform/v1
kind: Topic
kind: [
metadata: {name: t}
metadata:
spec:
---
  partitions: 3
  partitions: ~
  replicationFactor: 0x1
  config:
    retention.ms: 7d
    cleanup.policy: [delete]
    ${x}: 1
  retention: {time: 1}
  overrides: {dev: {}}
  overrides: {dev: {config: {a: {}}}}
  state: absent
  keyed: yes
- 1
\t
  skew: []
metadata: {name: 1, labels: [], annotations: {kafkaform/allow: 1}}
spec: &a [*a]
  <<: {}"""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(FRAGMENTS.splitlines()), max_size=14).map("\n".join).map(str.encode)
    | st.binary(max_size=60)
)
def test_any_file_is_loaded_or_has_problems(raw: bytes) -> None:
    write_files({"a.yaml": raw})
    found: tuple[Problem, ...] = ()
    try:
        load([Path("t")], Context(("dev",), "dev"))
    except InvalidInput as error:
        found = error.problems
        if not found:
            raise
    assert all(problem.location and problem.location.file == "t/a.yaml" for problem in found)
