"""From manifest files to desired resources: every problem in one run, or what was meant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaform.config.manifests.loader import Context, load, load_all, merge
from kafkaform.core.errors import InvalidInput, Problem
from kafkaform.core.model import Desired, Location, ResourceRef, Undeclared
from kafkaform.resources.base import Layer

HEAD = "apiVersion: kafkaform/v1\nkind: Topic\n"


def topic(spec: str, name: str = "t", metadata: str = "") -> str:
    """A manifest whose spec starts in line 4, column 7 (or 5, with more metadata)."""
    return f"{HEAD}metadata: {{name: {name}{metadata}}}\nspec: {spec}\n"


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    return tmp_path


def write(files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = Path("t") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def problems(
    files: Mapping[str, str | bytes], context: Context | None = None, paths: tuple[str, ...] = ("t",)
) -> list[str]:
    write(files)
    with pytest.raises(InvalidInput) as caught:
        load(map(Path, paths), context or Context())
    return [str(problem) for problem in caught.value.problems]


def loaded(manifest: str, context: Context | None = None) -> Desired:
    write({"a.yaml": manifest})
    (desired,) = load([Path("t")], context or Context())
    return desired


def state(spec: str, context: Context | None = None) -> Mapping[str, object]:
    found = loaded(topic(spec), context).state
    assert found is not None
    return found


# --- bad input ---------------------------------------------------------------------------------------

COUNTS = "partitions: 1, replicationFactor: 1"

DURATION = "is not a duration; write a number of milliseconds or e.g. 7d, 36h, 90m, 1h30m"
TWICE = "is given twice (retention says it already: keep one of the two)"

# What is refused, with a mark where the problem is said to be; and the problems, in that order.
BAD_SPECS: dict[str, tuple[str, list[str]]] = {
    "unknown config": (
        "config: {§cleanup.polcy: delete}",
        ["unknown Kafka config 'cleanup.polcy' (did you mean 'cleanup.policy'?)"],
    ),
    "config that is like no other": (
        "config: {§xyzzy: 1}",
        ["unknown Kafka config 'xyzzy' (Kafka 4.3.1 has none like it)"],
    ),
    "internal config": (
        "config: {§internal.segment.bytes: 1000000}",
        ["unknown Kafka config 'internal.segment.bytes' (did you mean 'segment.bytes'?)"],
    ),
    "throttle": (
        "config: {§leader.replication.throttled.replicas: '*'}",
        [
            (
                "leader.replication.throttled.replicas belongs to running reassignments "
                "and cannot be declared (remove it)"
            )
        ],
    ),
    "type": (
        "config: {min.insync.replicas: §two, preallocate: §yes, max.message.bytes: §1.5}",
        [
            "min.insync.replicas: 'two' is not a whole number",
            "preallocate: 'yes' is not valid; one of true, false",
            "max.message.bytes: '1.5' is not a size; write a number of bytes or e.g. 50GiB, 512MiB, 1MB",
        ],
    ),
    "range": (
        "config: {min.insync.replicas: §0, min.cleanable.dirty.ratio: §1.5, segment.ms: §-1}",
        [
            "min.insync.replicas: 0 is below the least value 1",
            "min.cleanable.dirty.ratio: 1.5 is above the greatest value 1",
            "segment.ms: -1 is below the least value 1",
        ],
    ),
    "choice": (
        "config: {cleanup.policy: §compat}",
        ["cleanup.policy: 'compat' is not valid; one of compact, delete; did you mean 'compact'?"],
    ),
    "unit": (
        "retention: §7 days, config: {segment.bytes: §1G}",
        [
            f"retention.ms: '7 days' {DURATION}",
            "segment.bytes: '1G' is ambiguous; write GB (powers of 1000) or GiB (powers of 1024)",
        ],
    ),
    "a number in another base": (
        "retention: {time: §0x10}, config: {segment.ms: §1e3}",
        [f"retention.ms: '0x10' {DURATION}", "segment.ms: '1e3' is not a whole number; write 1000"],
    ),
    "sexagesimal": ("retention: §1:30", [f"retention.ms: '1:30' {DURATION}"]),
    "truth": ("retention: §true", [f"retention.ms: 'true' {DURATION}"]),
    "both spellings": (
        "retention: 7d, config: {§retention.ms: 604800000}",
        [f"retention.ms {TWICE}"],
    ),
    "both spellings, one of them bad": (
        "retention: {bytes: 1GiB}, config: {§retention.bytes: §much}",
        [
            f"retention.bytes {TWICE}",
            "retention.bytes: 'much' is not a size; write a number of bytes or e.g. 50GiB, 512MiB, 1MB",
        ],
    ),
    "both spellings in one override": (
        "overrides: {dev: {retention: 7d, config: {§retention.ms: ~}}}",
        [f"retention.ms {TWICE}"],
    ),
    "a placement without replicas": (
        "placement: §{strategy: static}",
        [
            (
                "static placement has no replicas "
                "(list the brokers of each partition: replicas: [[1, 2], [2, 3]])"
            )
        ],
    ),
    "replicas without a static placement": (
        "placement: {strategy: balanced, §replicas: [[1]]}",
        [
            (
                "only static placement lists replicas, and this is balanced "
                "(remove replicas, or write strategy: static)"
            )
        ],
    ),
    "a broker twice": (
        "placement: {strategy: static, replicas: [[1, 2, 3], §[1, 2, 2], [1, 2, 3]]}",
        ["partition 1 names broker 2 twice (a broker holds one replica of a partition at most)"],
    ),
    "a placement of other counts": (
        "placement: {strategy: static, replicas: §[[1], §[1, 2]]}",
        [
            "replicas lists 2 partitions, and partitions is 1 (list the brokers of every partition)",
            (
                "partition 1 has 2 replicas, and replicationFactor is 1 "
                "(list as many brokers for each partition)"
            ),
        ],
    ),
    "a placement by no strategy": (
        "placement: {strategy: §rackaware}",
        [
            (
                "spec.placement.strategy must be one of balanced, rack-aware, static, not 'rackaware' "
                "(did you mean 'rack-aware'?)"
            )
        ],
    ),
    "a list for one value": (
        "config: {min.insync.replicas: §[2]}",
        ["min.insync.replicas: is not a list (write one value)"],
    ),
    "reference": (
        "retention: §§'${env:RETENTION}'",
        [
            (
                "${…} is not expanded in manifests "
                "(write the value; values that differ by environment go into spec.overrides)"
            ),
            f"retention.ms: '${{env:RETENTION}}' {DURATION}",
        ],
    ),
}


@pytest.mark.parametrize(("spec", "expected"), BAD_SPECS.values(), ids=BAD_SPECS.keys())
def test_bad_specs(spec: str, expected: list[str]) -> None:
    marked = f"spec: {{{COUNTS}, {spec}}}"
    columns = [i - marked[:i].count("§") + 1 for i, letter in enumerate(marked) if letter == "§"]
    found = problems({"a.yaml": topic(f"{{{COUNTS}, {spec.replace('§', '')}}}")}, Context(None, "dev"))
    assert found == [
        f"t/a.yaml:4:{column}: {message}" for column, message in zip(columns, expected, strict=True)
    ]


def test_missing_counts() -> None:
    assert problems({"a.yaml": topic("{}")}) == [
        f"t/a.yaml:4:7: spec.{name} is missing (set it here, or in defaults.Topic.{name} of kafkaform.yaml)"
        for name in ("partitions", "replicationFactor")
    ]


WHOLE = topic(f"{{{COUNTS}}}")

BAD_FILES: dict[str, tuple[dict[str, str | bytes], list[str]]] = {
    "duplicate resource across files": (
        {"a.yaml": WHOLE, "b/c.yml": WHOLE},
        [
            (
                "t/b/c.yml:3:18: Topic/t is declared twice "
                "(first declared at t/a.yaml:3:18; a resource can have only one manifest)"
            )
        ],
    ),
    "duplicate resource in one file": (
        {"a.yaml": f"{WHOLE}---\n{WHOLE}"},
        [
            (
                "t/a.yaml:8:18: Topic/t is declared twice "
                "(first declared at t/a.yaml:3:18; a resource can have only one manifest)"
            )
        ],
    ),
    "empty file": (
        {"a.yaml": "", "b.yaml": WHOLE},
        ["t/a.yaml:1:1: the file contains no manifest (write a manifest, or delete the file)"],
    ),
    "only comments": (
        {"a.yaml": "# spec:\n\n# nothing\n"},
        ["t/a.yaml:1:1: the file contains no manifest (write a manifest, or delete the file)"],
    ),
    "only document marks": (
        {"a.yaml": "---\n---\n---\n"},
        ["t/a.yaml:1:1: the file contains no manifest (write a manifest, or delete the file)"],
    ),
    "no mapping": (
        {"a.yaml": f"{WHOLE}---\n- 1\n---\ntext\n---\n7\n"},
        [
            f"t/a.yaml:{line}:1: a manifest must be a mapping "
            "(start with apiVersion: kafkaform/v1, without a dash; a line --- separates manifests)"
            for line in (6, 8, 10)
        ],
    ),
    "unknown kind": (
        {"a.yaml": WHOLE.replace("Topic", "Topik"), "b.yaml": WHOLE.replace("Topic", "Deployment")},
        [
            "t/a.yaml:2:7: unknown kind 'Topik' (did you mean 'Topic'?)",
            "t/b.yaml:2:7: unknown kind 'Deployment' (known kinds: Topic, ConsumerGroup)",
        ],
    ),
    "no kind": (
        {"a.yaml": "metadata: {name: t}\n"},
        [
            "t/a.yaml:1:1: kind is missing (known kinds: Topic, ConsumerGroup)",
            "t/a.yaml:1:1: apiVersion is missing (write apiVersion: kafkaform/v1)",
        ],
    ),
    "unknown version": (
        {
            "a.yaml": WHOLE.replace("/v1", "/v2"),
            "b.yaml": WHOLE.replace("kafkaform/v1", "1.0", 1).replace("t}", "u}"),
        },
        [
            (
                "t/a.yaml:1:13: apiVersion must be kafkaform/v1, not 'kafkaform/v2' "
                "(did you mean 'kafkaform/v1'?)"
            ),
            "t/b.yaml:1:13: apiVersion must be kafkaform/v1, not 1.0",
        ],
    ),
    "unknown version of an unknown kind": (
        {"a.yaml": "apiVersion: v1\nkind: [Pod]\n"},
        [
            "t/a.yaml:1:13: apiVersion must be kafkaform/v1, not 'v1' (write apiVersion: kafkaform/v1)",
            "t/a.yaml:2:7: unknown kind \"['Pod']\" (known kinds: Topic, ConsumerGroup)",
        ],
    ),
    "consent to a hazard that there is not": (
        {
            "a.yaml": topic(
                f"{{{COUNTS}}}", metadata=", annotations: {kafkaform/allow: 'retention-cutt: why'}"
            )
        },
        ["t/a.yaml:3:52: there is no hazard 'retention-cutt' (did you mean 'retention-cut'?)"],
    ),
    "consent without a reason": (
        {"a.yaml": topic(f"{{{COUNTS}}}", metadata=", annotations: {kafkaform/allow: retention-cut}")},
        [
            (
                "t/a.yaml:3:52: 'retention-cut' is not a consent (write one per line: `HAZARD from VALUE: "
                "reason`, "
                "`delete of TOPIC-ID: reason`, or `HAZARD: reason`)"
            )
        ],
    ),
    "reference in a name": (
        {"a.yaml": topic(f"{{{COUNTS}}}", name="'${TEAM}.t'")},
        [
            (
                "t/a.yaml:3:18: ${…} is not expanded in manifests "
                "(write the value; values that differ by environment go into spec.overrides)"
            )
        ],
    ),
    "large file": (
        {"a.yaml": WHOLE + "#" * 10_000_000},
        ["t/a.yaml:1:1: the file is larger than 5 MiB (split it)"],
    ),
    "not UTF-8": (
        {"a.yaml": WHOLE.encode() + b"# caf\xe9\n"},
        ["t/a.yaml:5:6: not UTF-8: byte 0xe9 (save the file as UTF-8)"],
    ),
    "alias bomb": (
        {"a.yaml": "\n".join(f"{c}: &{c} [{','.join([f'*{chr(ord(c) - 1)}'] * 9)}]" for c in "bcdefghi")},
        [
            (
                "t/a.yaml:1:8: the alias has no anchor (define it with & above in the same document, "
                "or quote the value if * is text)"
            )
        ],
    ),
}


BROKER_CONFIGS = {
    "log.retention.hours: 168": "config: {retention.ms: 7d}",
    "log.retention.minutes: 90": "config: {retention.ms: 90m}",
    "log.retention.ms: 1000": "config: {retention.ms: 1000}",
    "log.retention.bytes: 1GiB": "config: {retention.bytes: 1GiB}",
    "log.segment.bytes: 1GiB": "config: {segment.bytes: 1GiB}",
    "log.cleanup.policy: compact": "config: {cleanup.policy: compact}",
    "log.roll.hours: 24": "config: {segment.ms: 1d}",
    "message.max.bytes: 1MiB": "config: {max.message.bytes: 1MiB}",
    "num.partitions: 6": "partitions: 6",
    "default.replication.factor: 3": "replicationFactor: 3",
}


@pytest.mark.parametrize(("given", "instead"), BROKER_CONFIGS.items(), ids=BROKER_CONFIGS.keys())
def test_a_broker_config_is_told_with_what_a_topic_has_for_it(given: str, instead: str) -> None:
    (problem,) = problems({"a.yaml": topic(f"{{{COUNTS}, config: {{{given}}}}}")})
    name = given.partition(":")[0]
    assert problem.endswith(f"{name} is a config of brokers, not of topics (write {instead} in spec)")
    if instead.startswith("config"):
        assert loaded(topic(f"{{{COUNTS}, {instead}}}")).state is not None


FOREIGN = {
    "kafka.strimzi.io/v1beta2": "a KafkaTopic is Strimzi's manifest (write apiVersion: kafkaform/v1 and "
    "kind: Topic; spec.replicas is spec.replicationFactor, spec.topicName metadata.name; "
    "the rest of spec stays)",
    "kafka.jikkou.io/v1beta2": "a KafkaTopic is Jikkou's manifest (write apiVersion: kafkaform/v1 and "
    "kind: Topic; spec.replicas is spec.replicationFactor, spec.configs is spec.config; "
    "spec.partitions stays)",
}


@pytest.mark.parametrize(("version", "expected"), FOREIGN.items(), ids=FOREIGN.keys())
def test_a_topic_of_another_tool_is_told_with_what_maps_where(version: str, expected: str) -> None:
    head = f"apiVersion: {version}\nkind: KafkaTopic\nmetadata: {{name: t}}\n"
    text = head + "spec: {partitions: 3, replicas: 1}\n"
    assert problems({"a.yaml": text}) == [f"t/a.yaml:2:7: {expected}"]


def test_fields_in_the_wrong_place_are_told_where_they_belong() -> None:
    assert problems(
        {
            "a.yaml": (
                f"{HEAD}metadata: {{name: t, spec: {{}}}}\nspec: {{{COUNTS}, retention.ms: 7d}}\n"
                "partitions: 3\n"
            ),
            "b.yaml": topic(f"{{{COUNTS}, config: [retention.ms: 7d]}}", "b"),
            "c.yaml": topic(f"{{{COUNTS}, config: {{retention: {{ms: 7d}}}}}}", "1234"),
        }
    ) == [
        "t/a.yaml:3:21: unknown field 'spec' in metadata (it belongs to the top level: indent it less)",
        "t/a.yaml:4:45: unknown field 'retention.ms' in spec (it belongs in spec.config)",
        "t/a.yaml:5:1: unknown field 'partitions' (it belongs in spec)",
        "t/b.yaml:4:53: spec.config must be a mapping, not a list (write lines `name: value` without dashes)",
        "t/c.yaml:3:18: metadata.name must be text, not 1234 (quote it, as in '1234')",
        (
            "t/c.yaml:4:65: spec.config.retention must be text, a number, true or false, a list or null, "
            "not a mapping (write the name in one piece: retention.ms)"
        ),
    ]


@pytest.mark.parametrize(("files", "expected"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files(files: dict[str, str | bytes], expected: list[str]) -> None:
    assert problems(files) == expected


def test_every_problem_of_every_file_in_one_run() -> None:
    found = problems(
        {
            "a.yaml": topic(
                "{partitons: 3, config: {retention.ms: soon, segmen.bytes: 1}, overrides: {pord: {keyed: 1}}}"
            ),
            "b.yaml": topic("{partitions: 1}") + "---\n" + topic("null", "t2"),
            "c.yaml": "a: [\n",
            "d.yaml": topic(f"{{{COUNTS}}}", metadata=", lables: {}, annotations: {kafkaform/allow: x}"),
        },
        Context(("dev", "prod"), "prod"),
        ("t", "nowhere"),
    )
    assert [problem.split(" (")[0] for problem in found] == [
        "nowhere:1:1: no such file or folder",
        "t/a.yaml:4:8: unknown field 'partitons' in spec",
        f"t/a.yaml:4:45: retention.ms: 'soon' {DURATION}",
        "t/a.yaml:4:51: unknown Kafka config 'segmen.bytes'",
        "t/a.yaml:4:81: unknown environment 'pord'",
        "t/a.yaml:4:95: spec.overrides.pord.keyed must be true or false, not 1",
        "t/b.yaml:3:18: Topic/t is declared twice",
        "t/b.yaml:4:7: spec.replicationFactor is missing",
        "t/b.yaml:9:7: spec must be a mapping, not null",
        "t/c.yaml:2:1: the file ends inside of brackets",
        "t/d.yaml:3:18: Topic/t is declared twice",
        "t/d.yaml:3:21: unknown field 'lables' in metadata",
        "t/d.yaml:3:64: 'x' is not a consent",
    ]


def test_the_manifests_of_a_run_have_a_limit_of_values_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.config.manifests.loader.MAX_VALUES", 30)
    files = {f"{name}.yaml": topic(f"{{{COUNTS}}}", name) for name in "abcd"}
    assert problems(files) == [
        (
            "t/c.yaml:1:1: the manifests up to this one have more than 30 values: not read further "
            "(give the paths of fewer manifests)"
        )
    ]


def test_a_file_is_not_searched_for_each_document(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[bytes] = []

    class Searched(bytes):
        def __contains__(self, part: object, /) -> bool:
            searches.append(bytes(part))  # type: ignore[call-overload]
            return super().__contains__(part)  # type: ignore[operator]

    text = "---\n".join(topic(f"{{{COUNTS}}}", f"t{number}") for number in range(50))
    monkeypatch.setattr("kafkaform.config.manifests.loader.read_bytes", lambda *_: Searched(text.encode()))
    write({"a.yaml": ""})
    assert len(load([Path("t")], Context())) == 50
    assert len(searches) == 1


def test_problems_are_the_same_whatever_the_order_of_paths() -> None:
    files = {"x/a.yaml": WHOLE, "y/b.yaml": WHOLE, "y/c.yaml": "{}"}
    assert problems(files, paths=("t/x", "t/y")) == problems(files, paths=("t/y", "t/x", "t/y/b.yaml"))


# --- finding files -----------------------------------------------------------------------------------


def test_paths() -> None:
    assert problems({}) == [
        (
            "t:1:1: no manifests (*.yaml, *.yml) in this folder "
            "(write a manifest, or run kafkaform init (an example) or kafkaform import (of a live cluster))"
        )
    ]
    assert problems({}, paths=("nowhere/a.yaml",)) == ["nowhere/a.yaml:1:1: no such file or folder"]
    assert problems({}, paths=("n" * 300,)) == [f"{'n' * 300}:1:1: cannot be read: File name too long"]
    (Path("t") / "gone.yaml").symlink_to("nothing")
    assert problems({}) == ["t/gone.yaml:1:1: is not a file (remove it, or rename it)"]


def test_what_counts_as_a_manifest() -> None:
    write({"a.yaml": WHOLE, ".hidden.yaml": "x", ".git/b.yaml": "x", "kafkaform.yaml": "x", "notes.txt": "x"})
    write({"deep/er/c.yml": topic(f"{{{COUNTS}}}", "u")})
    Path("t/deep/loop").symlink_to("..")
    Path("t/deep/same.yaml").symlink_to("../a.yaml")
    found = load([Path("t"), Path("t/a.yaml"), Path("t/../t")], Context())
    assert [d.ref for d in found] == [ResourceRef("Topic", "t"), ResourceRef("Topic", "u")]
    assert [d.location for d in found] == [Location("t/a.yaml", 1, 1), Location("t/deep/er/c.yml", 1, 1)]


LEADS_OUT = (
    "is a link out of the manifests folder: not followed "
    "(move the files here, or give their paths on the command line)"
)


@pytest.mark.parametrize("target", ["../secret.yaml", "../secrets", "../t2", "t/../../secret.yaml"])
def test_a_link_out_of_the_folder_is_not_followed(target: str, repository: Path) -> None:
    # A pull request could otherwise have CI print any file of its machine in an error message.
    write({"a.yaml": WHOLE})
    for folder in ("secrets", "t2"):  # t2: its path starts with that of the folder
        (repository / folder).mkdir()
        (repository / folder / "b.yaml").write_text("password: hunter2\n")
    (repository / "secret.yaml").write_text("password: hunter2\n")
    Path("t/c.yaml").symlink_to(target)
    Path("t/d.yaml").symlink_to(repository / "secret.yaml")
    Path("t/e").mkdir()
    Path("t/e/f.yaml").symlink_to("../d.yaml")
    found = problems({})
    assert [problem for problem in found if "hunter2" in problem or "password" in problem] == []
    assert found[1:] == [f"t/d.yaml:1:1: {LEADS_OUT}", f"t/e/f.yaml:1:1: {LEADS_OUT}"]
    assert found[0] == f"t/c.yaml:1:1: {LEADS_OUT}"


def test_a_link_out_of_the_folder_that_is_no_manifest_is_nobodys_business(repository: Path) -> None:
    (repository / "notes").write_text("x")
    Path("t/notes.txt").symlink_to("../notes")
    assert loaded(WHOLE).ref == ResourceRef("Topic", "t")


def test_a_broken_link_out_of_the_folder_says_nothing_of_what_is_there() -> None:
    Path("t/a.yaml").symlink_to("../../nowhere/a.yaml")
    assert problems({}) == [f"t/a.yaml:1:1: {LEADS_OUT}"]


def test_a_given_path_may_be_a_link(repository: Path) -> None:
    (repository / "real").mkdir()
    (repository / "real/a.yaml").write_text(WHOLE)
    (repository / "real/same.yaml").symlink_to("a.yaml")
    Path("t/folder").symlink_to("../real")
    Path("t/b.yaml").symlink_to("../real/a.yaml")
    for path in ("t/folder", "t/b.yaml"):
        assert [d.ref.name for d in load([Path(path)], Context())] == ["t"]


def test_a_mounted_config_map_is_read() -> None:
    # Kubernetes mounts one as links by way of a hidden folder, which it replaces as a whole.
    write({"..2026_11_01/a.yaml": WHOLE, "..2026_11_01/b.yaml": topic(f"{{{COUNTS}}}", "u")})
    Path("t/..data").symlink_to("..2026_11_01")
    for name in ("a.yaml", "b.yaml"):
        Path("t", name).symlink_to(f"..data/{name}")
    found = load([Path("t")], Context())
    assert [str(d.location) for d in found] == ["t/a.yaml:1:1", "t/b.yaml:1:1"]


def test_a_pipe_is_not_waited_for() -> None:
    os.mkfifo("t/pipe.yaml")
    assert problems({"a.yaml": WHOLE}) == ["t/pipe.yaml:1:1: is not a file (remove it, or rename it)"]


def test_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    # Denied by the test, because root may read everything.
    def denied(path: Path, *_: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("kafkaform.config.manifests.files.FileIO", denied)
        assert problems({}, paths=("t",))[0].startswith("t:1:1: no manifests")
        Path("t/a.yaml").touch()
        assert problems({}) == ["t/a.yaml:1:1: cannot be read: Permission denied"]
    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", denied)
        assert problems({}) == ["t:1:1: cannot be read: Permission denied"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_dir", denied)
        assert problems({}) == ["t:1:1: cannot be read: Permission denied"]


# --- what was meant ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "plain"), [("1e3", "1000"), ("12.0", "12"), ("1.2e1", "12"), ("-1e0", "-1")]
)
def test_a_whole_number_written_as_a_fraction_is_refused_with_the_plain_one(text: str, plain: str) -> None:
    wrong = "must be a whole number, and is written as a fraction or with an exponent"
    found = problems(
        {"a.yaml": topic(f"{{partitions: {text}, replicationFactor: 1, skew: {{maxKeyShare: 1.0}}}}")}
    )
    assert f"t/a.yaml:4:20: spec.partitions {wrong} (write {plain})" in found
    deep = topic(f"{{{COUNTS}, overrides: {{dev: {{partitions: {text}}}}}}}")
    assert any(
        f"spec.overrides.dev.partitions {wrong} (write {plain})" in one for one in problems({"a.yaml": deep})
    )


@pytest.mark.parametrize("text", ["12", "012", "0xC", "0o14"])
def test_a_whole_number_is_one_however_it_is_written(text: str) -> None:
    found = state(f"{{partitions: {text}, replicationFactor: 1}}")
    assert found == {"partitions": 12, "replicationFactor": 1}
    assert isinstance(found["partitions"], int)


def test_configs_become_canonical_texts() -> None:
    found = state(
        f"{{{COUNTS}, retention: {{time: 7d, bytes: 50GiB}}, config: {{"
        "min.cleanable.dirty.ratio: 0.50, segment.ms: 060000, cleanup.policy: [delete, compact], "
        "preallocate: TRUE, max.message.bytes: 1MiB, compression.type: null, confluent.x: 0.50, "
        "redpanda.y: [b, a], message.format.version: 3.0}}"
    )
    assert found == {
        "partitions": 1,
        "replicationFactor": 1,
        "config.cleanup.policy": "compact,delete",
        "config.compression.type": None,
        "config.confluent.x": "0.50",
        "config.max.message.bytes": "1048576",
        "config.message.format.version": "3.0",
        "config.min.cleanable.dirty.ratio": "0.5",
        "config.preallocate": "true",
        "config.redpanda.y": "b,a",
        "config.retention.bytes": "53687091200",
        "config.retention.ms": "604800000",
        "config.segment.ms": "60000",
    }


@pytest.mark.parametrize(
    ("spec", "milliseconds"),
    [
        ("retention: 7d", "604800000"),
        ("retention: 010", "10"),
        ("retention: unlimited", "-1"),
        ("retention: {time: 1h30m}", "5400000"),
        ("retention: {time: ~}", None),
        ("config: {retention.ms: -1}", "-1"),
    ],
)
def test_retention(spec: str, milliseconds: str | None) -> None:
    assert state(f"{{{COUNTS}, {spec}}}")["config.retention.ms"] == milliseconds


def test_intent() -> None:
    desired = loaded(
        topic(
            f"{{{COUNTS}, keyed: false, deletionProtection: true, undeclared: reset, "
            "skew: {maxKeyShare: 0.1}}",
            metadata=", labels: {tier: 010, team: yes}, "
            'annotations: {kafkaform/allow: "retention-cut: hold ended, T-1\\n\\ndelete: unused"}',
        )
    )
    intent = desired.intent
    assert intent.keyed is False
    assert intent.deletion_protection is True
    assert intent.undeclared is Undeclared.RESET
    assert intent.labels == {"tier": "010", "team": "yes"}
    assert intent.allow == {"retention-cut": "hold ended, T-1", "delete": "unused"}
    assert intent.spec["skew"] == {"maxKeyShare": 0.1}
    assert loaded(WHOLE).intent.keyed is None


def test_a_tombstone_needs_no_counts() -> None:
    assert loaded(topic("{state: absent}")).state is None
    assert loaded(topic(f"{{{COUNTS}, state: present}}")).state is not None


def test_a_byte_order_mark_carriage_returns_and_a_long_name() -> None:
    name = "n" * 5000
    desired = loaded("\ufeff" + topic(f"{{{COUNTS}}}", name).replace("\n", "\r\n"))
    assert desired.ref.name == name


# --- layers ------------------------------------------------------------------------------------------

LAYERED = f"""{{{COUNTS}, retention: 2d, config: {{segment.ms: 2h, max.message.bytes: 2MiB}},
  overrides: {{prod: {{partitions: 9, config: {{retention.ms: 1d, max.message.bytes: ~}}}}, dev: {{}}}}}}"""
ENVIRONMENTS = ("dev", "prod")


def defaults(*layers: Layer) -> dict[str, tuple[Layer, ...]]:
    return {"Topic": layers}


def test_layers_go_from_the_least_to_the_most_specific() -> None:
    base: Layer = {
        "partitions": 5,
        "keyed": False,
        "config": {"retention.ms": "5", "segment.ms": "5", "segment.bytes": "5", "preallocate": "true"},
    }
    over: Layer = {"keyed": True, "config": {"segment.bytes": "6", "preallocate": None}}
    write({"a.yaml": topic(LAYERED)})
    contexts = [
        Context(ENVIRONMENTS, "dev", defaults(base)),
        Context(ENVIRONMENTS, "prod", defaults(base, over), Undeclared.KEEP),
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
    assert dev.intent.keyed is False
    assert dev.intent.undeclared is Undeclared.REPORT
    assert prod.state == {
        "partitions": 9,
        "replicationFactor": 1,
        "config.max.message.bytes": None,
        "config.preallocate": None,
        "config.retention.ms": "86400000",
        "config.segment.bytes": "6",
        "config.segment.ms": "7200000",
    }
    assert prod.intent.keyed is True
    assert prod.intent.undeclared is Undeclared.KEEP


def test_overrides_need_an_environment_that_exists() -> None:
    manifest = topic(f"{{{COUNTS}, overrides: {{dev: {{}}, prd: {{}}}}}}")
    assert problems({"a.yaml": manifest}) == [
        (
            "t/a.yaml:4:45: there are overrides, but no environment is chosen "
            "(choose one with --environment (dev, prd))"
        )
    ]
    assert problems({}, Context(ENVIRONMENTS, "dev")) == [
        "t/a.yaml:4:66: unknown environment 'prd' (did you mean 'prod'?)"
    ]
    assert problems({}, Context((), "dev")) == [
        "t/a.yaml:4:57: unknown environment 'dev' (environments: none)",
        "t/a.yaml:4:66: unknown environment 'prd' (environments: none)",
    ]
    # Without a configuration file there is no closed list.
    assert load([Path("t")], Context(None, "dev"))


def test_a_problem_of_all_environments_is_said_once() -> None:
    write({"a.yaml": topic("{partitions: 1, config: {retention.ms: x}}")})
    with pytest.raises(InvalidInput) as caught:
        load_all([Path("t")], [Context(ENVIRONMENTS, name) for name in ENVIRONMENTS])
    assert len(caught.value.problems) == 2
    assert str(caught.value) == "2 problems in the input"


def test_merge_leaves_its_layers_as_they_are() -> None:
    low: Layer = {"a": 1, "config": {"x": "1", "y": "1"}}
    high: Layer = {"b": 2, "config": {"y": None}}
    assert merge([low, high]) == {"a": 1, "b": 2, "config": {"x": "1", "y": None}}
    assert low == {"a": 1, "config": {"x": "1", "y": "1"}}


# --- anything at all ---------------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [
        "apiVersion: kafkaform/v1",
        "kind: Topic",
        "kind: [",
        "metadata: {name: t}",
        "metadata:",
        "spec:",
        "---",
        "  partitions: 3",
        "  partitions: ~",
        "  replicationFactor: 0x1",
        "  config:",
        "    retention.ms: 7d",
        "    cleanup.policy: [delete]",
        "    ${x}: 1",
        "  retention: {time: 1}",
        "  overrides: {dev: {}}",
        "  overrides: {dev: {config: {a: {}}}}",
        "  state: absent",
        "  keyed: yes",
        "- 1",
        "\t",
        "  skew: []",
        "metadata: {name: 1, labels: [], annotations: {kafkaform/allow: 1}}",
        "spec: &a [*a]",
        "  <<: {}",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FRAGMENTS, max_size=14).map("\n".join).map(str.encode) | st.binary(max_size=60))
def test_any_file_is_loaded_or_has_problems(raw: bytes) -> None:
    write({"a.yaml": raw})
    found: tuple[Problem, ...] = ()
    try:
        load([Path("t")], Context(("dev",), "dev"))
    except InvalidInput as error:
        found = error.problems
        if not found:
            raise
    assert all(problem.location and problem.location.file == "t/a.yaml" for problem in found)
