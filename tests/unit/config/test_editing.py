"""Changing manifests in place: what changes, what stays, what is refused, and how files are written."""

import os
from difflib import unified_diff
from pathlib import Path
from typing import TypeAlias

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifests.edit_files import EditedFile
from kafkaform.config.manifests.editing import Edit, EditResult, edit_manifests, write_edits
from kafkaform.config.manifests.loader import Context, load
from kafkaform.core.errors import KafkaformError
from kafkaform.core.model import FieldValue, ResourceRef
from tests.support.golden import list_texts

DEV_PROD = ("dev", "prod")
DAY = str(24 * 3600 * 1000)
HALF_DAY = "43200000"
GIB = str(2**30)
RETENTION, SIZE = "config.retention.ms", "config.retention.bytes"
SEGMENT, PREALLOCATE = "config.segment.ms", "config.preallocate"
CLEANUP, COMPRESSION = "config.cleanup.policy", "config.compression.type"
MIN_ISR = "config.min.insync.replicas"

Edits: TypeAlias = "list[tuple[str, FieldValue]]"

ORDERS = """\
# yaml-language-server: $schema=../schemas/topic.schema.json
apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: orders.v1      # the one and only
  annotations:
    kafkaform/allow: |
      retention-cut: legal hold ended
spec:
  partitions: 12   # many

  replicationFactor: 3
  retention: 7d    # a week
  config:
    # why not both
    cleanup.policy: [delete]
    'min.insync.replicas': 2
    segment.ms: "12h"
  keyed: true
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    return tmp_path


def try_edits(text: str, edits: Edits, context: Context | None = None, name: str = "") -> EditResult:
    """Return one file after edits of the first (or named) resource."""
    Path("t/m.yaml").write_bytes(text.encode())
    context = context or Context()
    desired = load([Path("t")], context)
    ref = next(d.ref for d in desired if name in {"", d.ref.name})
    return edit_manifests([Edit(ref, path, value) for path, value in edits], desired, context)


def diff_edits(text: str, edits: Edits, context: Context | None = None, name: str = "") -> list[str]:
    """The lines that go (-) and come (+) by edits, none of which is refused."""
    result = try_edits(text, edits, context, name)
    assert result.refused == ()
    if not result.files:
        return []
    (file,) = result.files
    assert (file.path, file.before) == (Path("t/m.yaml"), text)
    lines = list(unified_diff(text.splitlines(), file.after.splitlines(), n=0))[2:]
    return [line for line in lines if not line.startswith("@@")]


def read_refusal(
    text: str, path: str, value: FieldValue, context: Context | None = None, name: str = ""
) -> str:
    """Return why an edit is refused, which then leaves the file alone."""
    result = try_edits(text, [(path, value)], context, name)
    assert result.files == ()
    ((refused, reason),) = result.refused
    assert (refused.path, refused.value) == (path, value)
    return reason


def topic(spec: str, name: str = "t") -> str:
    """A manifest with a spec in block style."""
    lines = "".join(f"  {line}\n" for line in spec.splitlines())
    return f"apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {{name: {name}}}\nspec:\n{lines}"


COUNTS = "partitions: 3\nreplicationFactor: 1\n"


# What is said now (a spec besides its counts), and an edit.
SPECS: dict[str, tuple[str, str, FieldValue]] = {
    "count": ("keyed: true", "partitions", 24),
    "unit": ("retention: 168h", RETENTION, DAY),
    "unit that does not fit": ("retention: 7d", RETENTION, "5400000"),
    "no unit that fits": ("retention: 7d", RETENTION, "5400001"),
    "plain number": ("retention: 604800000  # ms", RETENTION, DAY),
    "size with a gap": ("retention: {bytes: 50 GiB}", SIZE, GIB),
    "unlimited, of a unit": ("retention: 7d", RETENTION, "-1"),
    "flow": ("config: { segment.ms: 12h,   cleanup.policy: delete }", SEGMENT, "3600000"),
    "null": ("config:\n  segment.ms: null # for now", SEGMENT, HALF_DAY),
    "text that needs quotes": ("config:\n  confluent.x: plain", "config.confluent.x", "a: b # ${c}"),
    "list, shorter": ("config:\n  cleanup.policy: [compact,  delete] # both", CLEANUP, "compact"),
    "list, longer": ("config:\n  cleanup.policy: ['delete']", CLEANUP, "compact,delete"),
    "list by lines, unset": (
        "config:\n  cleanup.policy: # 1\n    - compact # 2\n    # 3\n    - delete\n  preallocate: true",
        CLEANUP,
        None,
    ),
    # what is new
    "first config": ("keyed: true\noverrides: {}", SEGMENT, HALF_DAY),
    "config in the order of names": (
        "config:\n  cleanup.policy: delete # c\n\n  # s\n  segment.ms: 12h",
        MIN_ISR,
        "2",
    ),
    "config in flow": ("config: { cleanup.policy: delete, segment.ms: 12h }", MIN_ISR, "2"),
    "both limits": ("retention: 7d # a week", SIZE, GIB),
    "a limit": ("keyed: true", RETENTION, DAY),
    # what goes
    "no own value": ("config:\n  segment.ms: 12h\n  preallocate: true", SEGMENT, None),
    "no own value, its comment stays": (
        "config:\n  segment.ms: 12h   # TICKET-1\n  preallocate: true",
        SEGMENT,
        None,
    ),
    "no own retention": ("retention: 7d", RETENTION, None),
    "one limit less": ("retention: {time: 7d, bytes: 1GiB}", RETENTION, None),
    # deletion
    "absent": ("keyed: true\nskew: {maxKeyShare: 0.1}", "state", "absent"),
    "present again": ("state: absent", "state", None),
}


MANY: Edits = [
    ("partitions", 24),
    (RETENTION, DAY),
    (SIZE, GIB),
    (CLEANUP, "compact,delete"),
    (MIN_ISR, None),
    (SEGMENT, "3600000"),
    ("config.max.message.bytes", "2097152"),
]


OVERRIDDEN = topic(
    COUNTS
    + """\
retention: 7d
config:
  min.insync.replicas: 2
  segment.ms: 12h
overrides:
  dev: {partitions: 1, config: {min.insync.replicas: 1}}   # small"""
)

ENVIRONMENTS: dict[str, tuple[str, str, FieldValue]] = {
    "its own override": ("dev", "partitions", 2),
    "a new one": ("dev", SEGMENT, "3600000"),
    "a new one in the shorthand of the spec": ("dev", RETENTION, DAY),
    "unset what the spec says": ("dev", RETENTION, None),
    "what all others override": ("prod", "partitions", 6),
    "unset what all others override": ("prod", MIN_ISR, None),
    "deleted in one": ("prod", "state", "absent"),
}


REVERTED: Edits = [("state", None), ("replicationFactor", 3), ("partitions", 6), (RETENTION, DAY)]


def test_tombstone_edit_requires_required_fields() -> None:
    tombstone = topic("state: absent # gone")
    assert read_refusal(tombstone, "state", None).startswith("spec.partitions is missing")
    # All or nothing: half of a manifest helps nobody.
    result = try_edits(tombstone, REVERTED[:2])
    assert result.files == ()
    assert [value.path for value, _ in result.refused] == ["state", "replicationFactor"]


SEGMENT_BY_DEFAULT = Context(
    defaults={"Topic": ({"config": {"segment.ms": "43200000"}, "replicationFactor": 1},)}
)
RETENTION_BY_DEFAULT = Context(defaults={"Topic": ({"config": {"retention.ms": DAY}},)})
COUNTS_BY_DEFAULT = Context(defaults={"Topic": ({"partitions": 1, "replicationFactor": 1},)})
BARE_TOPIC, OWN_SEGMENT = topic("partitions: 3"), topic("partitions: 3\nconfig: {segment.ms: 1d}")
OVERRIDE = topic(COUNTS + "overrides:\n  dev:\n    replicationFactor: 2")
EMPTIED = topic(COUNTS + "overrides:\n  dev:\n    config:\n      segment.ms: 1h # soon\nkeyed: true")
FIRST: Edits = [("partitions", 6), (SEGMENT, None), (PREALLOCATE, "true")]
HEAD = "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: t}\n"
GROUP = """\
kind: ConsumerGroup
apiVersion: kafkaform/v1
metadata: {name: g}
spec:
    topics: [t]
    client: {max.poll.records: 1}
"""
IN_JSON = """\
{
  "apiVersion": "kafkaform/v1", "kind": "Topic",
  "metadata": {"name": "t"},
  "spec": {
    "partitions": 3,
    "replicationFactor": 1,
    "config": {}
  }
}
"""
DIFFS: dict[str, tuple[str, Edits, Context]] = {
    "where the documentation has it": (GROUP, [("config.consumer.session.timeout.ms", "50000")], Context()),
    "spec that is left empty": (
        HEAD + "spec:\n  config:  # c\n    segment.ms: 12h\n", [(SEGMENT, None)], COUNTS_BY_DEFAULT
    ),
    "count over a default": (BARE_TOPIC, [("replicationFactor", 3)], SEGMENT_BY_DEFAULT),
    "config over a default": (BARE_TOPIC, [(SEGMENT, DAY)], SEGMENT_BY_DEFAULT),
    "unset default": (BARE_TOPIC, [(SEGMENT, None)], SEGMENT_BY_DEFAULT),
    # Gone would be the same as what is wanted, but a value is what was asked for.
    "value of a default": (OWN_SEGMENT, [(SEGMENT, HALF_DAY)], SEGMENT_BY_DEFAULT),
    **{
        f"default retention, {own}": (
            topic(f"{COUNTS}retention: {own}"), [(RETENTION, None)], RETENTION_BY_DEFAULT
        )
        for own in ("7d", "{time: 7d}", "{time: 7d, bytes: 1GiB}")
    },
    "first override": (
        topic(COUNTS + "config:\n  segment.ms: 12h\nskew: {maxKeyShare: 0.1}"),
        FIRST,
        Context(DEV_PROD, "prod"),
    ),
    "the only environment": (topic(COUNTS), [("partitions", 6)], Context(("prod",), "prod")),
    # Environments that nobody lists count where there are overrides for them.
    "override of another environment": (OVERRIDE, [("partitions", 6)], Context(None, "prod")),
    "field that others override": (OVERRIDE, [("replicationFactor", 3)], Context(None, "prod")),
    "override that is left empty": (EMPTIED, [(SEGMENT, None)], Context(DEV_PROD, "dev")),
    "reverted deletion": (topic("state: absent # gone"), REVERTED, Context()),
    "present in one": (topic(COUNTS + "state: absent"), [("state", None)], Context(DEV_PROD, "dev")),
    "JSON": (IN_JSON, [("partitions", 6), (SEGMENT, DAY), (MIN_ISR, "2")], Context()),
}  # fmt: skip


SHARED = """\
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: t}
spec:
  partitions: &n 3
  replicationFactor: *n
  config: &common
    segment.ms: 12h
  overrides:
    dev: {config: *common}
"""
BY_HAND: dict[str, tuple[str, str, FieldValue]] = {
    "anchor": (SHARED, "partitions", 6),
    "alias": (SHARED, "replicationFactor", 1),
    "below an alias, new": (SHARED, PREALLOCATE, "true"),
    "alias beside": (SHARED, RETENTION, DAY),
    "no colon": (topic(COUNTS + "config: {segment.ms, preallocate: true}"), SEGMENT, HALF_DAY),
    "block scalar": (
        topic(COUNTS + "config:\n  compression.type: >-\n    zstd\n\n  preallocate: true"),
        COMPRESSION,
        "lz4",
    ),
    "brackets over lines": (
        topic(COUNTS + "config: {\n  cleanup.policy: delete,  # c\n  segment.ms: 12h  # s\n  }"),
        "config.segment.bytes",
        GIB,
    ),
}


IMPOSSIBLE: Edits = [
    ("partitions", None),
    ("replicationFactor", "1-3"),
    ("partitions", 0),
    (RETENTION, "-2"),
    ("config.cleanup.polcy", "delete"),
    ("config.leader.replication.throttled.replicas", "*"),
    ("offsets.orders.v1", "earliest"),
    ("keyed", "true"),
    ("state", "gone"),
]
"""Edits that no line can hold."""


def test_refused_edit_does_not_stop_others() -> None:
    result = try_edits(topic(COUNTS), [("config.nope", "1"), ("partitions", 6), ("replicationFactor", None)])
    assert [value.path for value, _ in result.refused] == ["config.nope", "replicationFactor"]
    assert result.files[0].after == topic(COUNTS.replace("3", "6"))
    result = try_edits(topic(COUNTS), [("partitions", 6), ("partitions", 6), ("partitions", 7)])
    ((second, reason),) = result.refused
    assert second.value == 7
    assert reason.endswith("partitions is also requested: 6")
    edit = Edit(ResourceRef("Topic", "nowhere"), "partitions", 3)
    assert edit_manifests([edit], [], Context()).refused == ((edit, "no manifest declares it"),)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (topic(COUNTS.replace("1", "2")).encode(), "has changed since it was read"),
        (topic(COUNTS, "another").encode(), "has changed since it was read"),
        (b"spec: [", "a bracket is not closed"),
        (b"\xff", "has changed since it was read"),
        (None, "cannot be read: No such file"),
    ],
)
def test_file_changed_since_loading_is_not_edited(now: bytes | None, reason: str) -> None:
    path = Path("t/m.yaml")
    path.write_text(topic(COUNTS))
    desired = load([path], Context())
    if now is None:
        path.unlink()
    else:
        path.write_bytes(now)
    edit = Edit(desired[0].ref, "partitions", 6)
    ((refused, why),) = edit_manifests([edit], desired, Context()).refused
    assert refused == edit
    assert reason in why


def files(count: int = 3) -> EditResult:
    """Files a, b, c, … with an edit each, not written yet."""
    names = [chr(ord("a") + number) for number in range(count)]
    for name in names:
        Path(f"t/{name}.yaml").write_text(f"{name} 1\n")
    return EditResult(tuple(EditedFile(Path(f"t/{n}.yaml"), f"{n} 1\n", f"{n} 2\n") for n in names), ())


def contents() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(Path("t").iterdir())}


def test_written_edits_keep_file_modes() -> None:
    result = files()
    Path("t/b.yaml").chmod(0o640)
    write_edits(result)
    assert contents() == {"a.yaml": "a 2\n", "b.yaml": "b 2\n", "c.yaml": "c 2\n"}
    assert Path("t/b.yaml").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_written_edits_keep_owner() -> None:
    result = files(1)
    os.chown("t/a.yaml", 1234, 4321)
    write_edits(result)
    status = Path("t/a.yaml").stat()
    assert (status.st_uid, status.st_gid) == (1234, 4321)


def test_changed_or_missing_file_stops_every_edit() -> None:
    unchanged = {"a.yaml": "a 1\n", "b.yaml": "b 1\n"}
    result = files()
    Path("t/c.yaml").write_text("c 1 \n")
    with pytest.raises(KafkaformError, match=r"t/c\.yaml has changed"):
        write_edits(result)
    assert contents() == unchanged | {"c.yaml": "c 1 \n"}
    Path("t/c.yaml").unlink()
    with pytest.raises(KafkaformError, match=r"cannot read t/c\.yaml"):
        write_edits(result)
    assert contents() == unchanged


def fail_after(patch: pytest.MonkeyPatch, call: str, count: int, *, again: bool) -> None:
    """Let a method of paths fail after so many calls, and again or not."""
    real, left = getattr(Path, call), [count]

    def failing(path: Path, *arguments: object) -> object:
        left[0] -= 1
        if left[0] == -1 or (again and left[0] < 0):
            raise OSError(28, "No space left on device")
        return real(path, *arguments)

    patch.setattr(Path, call, failing)


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("call", ["replace", "chmod"])
def test_failed_write_is_rolled_back(call: str, broken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whether the third cannot be replaced or not even be prepared, the first two are as they were.
    result = files()
    fail_after(monkeypatch, call, broken, again=False)
    with pytest.raises(KafkaformError) as caught:
        write_edits(result)
    assert caught.value.message == f"cannot write t/{'abc'[broken]}.yaml: No space left on device"
    assert caught.value.hint == "no manifest was changed"
    assert contents() == {"a.yaml": "a 1\n", "b.yaml": "b 1\n", "c.yaml": "c 1\n"}


def test_files_not_rolled_back_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = files()
    fail_after(monkeypatch, "replace", 2, again=True)
    with pytest.raises(KafkaformError) as caught:
        write_edits(result)
    assert caught.value.message == "cannot write t/c.yaml: No space left on device"
    paths = ", ".join(f"{Path.cwd()}/t/{n}.yaml" for n in "ab")
    assert str(caught.value.hint).endswith(f"cannot be restored: {paths}")


def test_link_outside_folder_is_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = files(1)
    Path("t/a.yaml").rename(folder / "a.yaml")
    (folder / "t/a.yaml").symlink_to("../a.yaml")
    (folder / "here/t").mkdir(parents=True)
    monkeypatch.chdir(folder / "t")
    with pytest.raises(KafkaformError, match=r"a\.yaml is a link to .*, which is outside this folder"):
        write_edits(EditResult((EditedFile(Path("a.yaml"), "a 1\n", "a 2\n"),), ()))
    assert (folder / "a.yaml").read_text() == "a 1\n"
    monkeypatch.chdir(folder)  # the checkout: all of it is ours to write
    write_edits(result)
    assert (folder / "a.yaml").read_text() == "a 2\n"


ACCESS = """\
apiVersion: kafkaform/v1
kind: Access
metadata: {name: checkout}
spec:
  principals: [User:a]  # one
  produces: [orders]
  acls:
    # the report
    - {resource: topic, name: x, operations: [Read]}  # until May
    - resource: topic
      name: y
      operations: [Read, Describe]
"""
ACCESS2 = ACCESS.replace("checkout", "more")
OF_TWO = ACCESS.replace("[User:a]", "[User:a, User:b]")
BARE = ACCESS.partition("  acls:")[0]
ACCESS_IN_DEV = BARE + "  overrides: {dev: {acls: [{resource: cluster, operations: [Alter]}]}}\n"


def build_topic_change(topic: str, *, gone: bool = False) -> tuple[str, FieldValue]:
    return f"allow Read on topic {topic}", None if gone else "granted"


ACLS: dict[str, tuple[str, Edits]] = {
    "added": (ACCESS, [build_topic_change("z"), ("deny All on cluster from 10.0.0.1", "denied")]),
    "removed": (ACCESS, [build_topic_change("x", gone=True)]),
    "the only one": (
        BARE + "  acls:\n" + "".join(ACCESS.splitlines(True)[8:9]),
        [build_topic_change("x", gone=True)],
    ),
    "no list": (BARE, [build_topic_change("z"), build_topic_change("prefix a.")]),
    "empty list": (BARE + "  acls: []\n", [build_topic_change("z")]),
    "other hosts": (BARE + "  hosts: [10.0.0.1]\n", [build_topic_change("z")]),
    "declared": (ACCESS, [("allow Write on topic orders", "granted")]),
    "several principals": (
        ACCESS.replace("[User:a]", "[User:b, User:a]") + "---\n" + ACCESS2,
        [build_topic_change("z")],
    ),
    "beside a tombstone": (
        ACCESS2 + "  state: absent\n---\n" + ACCESS,
        [build_topic_change("x", gone=True), build_topic_change("z")],
    ),
    "tombstone": (ACCESS + "  state: absent\n", [build_topic_change("x"), ("state", None)]),
}
"""A text, and the edits of the first principal."""


NOT_ALONE: dict[str, tuple[str, str, FieldValue]] = {
    "operations": (ACCESS, *build_topic_change("y", gone=True)),
    "twice": (ACCESS + "---\n" + ACCESS2, *build_topic_change("x", gone=True)),
    "principals": (OF_TWO, *build_topic_change("x", gone=True)),
    "state": (OF_TWO, "state", "absent"),
}


def test_edits_change_only_the_lines_of_the_field(golden: SnapshotAssertion) -> None:
    """Each edit with the lines that go (-) and come (+); other environments and principals stay."""
    texts = {
        name: diff_edits(topic(COUNTS + spec), [(path, value)]) for name, (spec, path, value) in SPECS.items()
    }
    texts["many at once"] = diff_edits(ORDERS, MANY)
    texts |= {name: diff_edits(text, edits, context) for name, (text, edits, context) in DIFFS.items()}
    for name, (environment, path, value) in ENVIRONMENTS.items():
        context = Context(DEV_PROD, environment)
        texts[f"{environment}: {name}"] = diff_edits(OVERRIDDEN, [(path, value)], context)
    for name, (text, edits) in ACLS.items():
        texts[f"ACL, {name}"] = diff_edits(text, edits, name="User:a")
    for name, (text, edits) in {
        "removed": ACLS["removed"],
        "added": (ACCESS_IN_DEV, [build_topic_change("z")]),
    }.items():
        texts[f"ACL in dev, {name}"] = diff_edits(text, edits, Context(DEV_PROD, "dev"), "User:a")
    lines = [f"{name}\n" + "".join(f"{line}\n" for line in text) for name, text in texts.items()]
    assert "".join(lines) == golden(name="edits.txt")


@pytest.mark.parametrize(
    ("mark", "newline", "end"), [("", "\n", ""), ("", "\r\n", ""), ("\ufeff", "\r\n", "\r\n")]
)
def test_edit_keeps_byte_order_mark_line_breaks_and_ending(mark: str, newline: str, end: str) -> None:
    bare, single, double = (
        mark + topic(COUNTS + spec).rstrip("\n").replace("\n", newline) + end
        for spec in ("", "config:\n  preallocate: true", "config:\n  preallocate: true\n  segment.ms: 12h")
    )
    for text, path, value in ((double, SEGMENT, None), (bare, PREALLOCATE, "true")):
        assert [file.after for file in try_edits(text, [(path, value)]).files] == [single]


def test_refused_edit_messages_match_golden(golden: SnapshotAssertion) -> None:
    texts = {f"{path} {value}": [read_refusal(topic(COUNTS), path, value)] for path, value in IMPOSSIBLE}
    for name, (text, path, value) in BY_HAND.items():
        context = Context(DEV_PROD[:1], "dev") if "overrides" in text else Context()
        texts[f"form, {name}"] = [read_refusal(text, path, value, context)]
    for name, (text, path, value) in NOT_ALONE.items():
        texts[f"ACL, {name}"] = [read_refusal(text, path, value, name="User:a")]
    assert list_texts(texts) == golden(name="refused.txt")
