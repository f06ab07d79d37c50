"""The laws of editing manifests in place, for manifests in every style that people write YAML in."""

import re
from dataclasses import dataclass
from difflib import ndiff
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from ruamel.yaml import YAML

from kafkaform.config.manifests.editing import Edit, edit_manifests, write_edits
from kafkaform.config.manifests.loader import Context, load_all
from kafkaform.core.model import Desired, FieldValue, ResourceRef
from kafkaform.core.values import replace
from kafkaform.resources import KINDS

MARK = re.compile(r"#~[0-9]+")
ENVIRONMENTS = ("dev", "prod", "test")

# Ways to write values of configs, by name; and values as a broker tells them.
POLICIES = ("delete", "compact", "compact,delete", "'delete, compact'", "[delete]", "[compact, delete]")
SPELLINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "Topic": {
        "retention.ms": ("7d", "168h", "604800000", "'7d'", '"3600000"', "unlimited", "-1", "1h30m", "0"),
        "retention.bytes": ("50GiB", "1.5MB", "1073741824", '"2 GiB"', "-1", "unlimited"),
        "cleanup.policy": POLICIES,
        "min.insync.replicas": ("2", "1", "'2'"),
        "segment.ms": ("12h", "43200000", "null", "~"),
        "max.message.bytes": ("2MiB", "1000012", "1MB"),
        "preallocate": ("true", "false", "'true'"),
        "min.cleanable.dirty.ratio": ("0.5", "0.50", "1", '"0.2"'),
        "compression.type": ("zstd", "'lz4'", '"producer"', "null", ""),
        "confluent.tier.enable": ("true", "x y", "'it''s'"),
    },
    "ConsumerGroup": {
        "consumer.session.timeout.ms": ("50s", "45000", "'1m'", "null"),
        "consumer.heartbeat.interval.ms": ("5s", "5000"),
        "share.auto.offset.reset": ("earliest", "'by_duration:PT6H'", "by_duration:PT6H"),
        "share.isolation.level": ("read_committed", '"read_uncommitted"'),
    },
}
ODD = ("true", "060000", "a: b # c", 'say "it\'s"', "null", "é☃", "x,y", "- z", "[", "")
VALUES: dict[str, tuple[str, ...]] = {
    "retention.ms": ("604800000", "86400000", "3600000", "1", "-1", "9223372036854775807", "5400000"),
    "retention.bytes": ("1073741824", "-1", "1000000", "123456789"),
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "min.insync.replicas": ("1", "2", "3"),
    "segment.ms": ("43200000", "604800000", "1"),
    "max.message.bytes": ("1048588", "2097152", "0"),
    "preallocate": ("true", "false"),
    "min.cleanable.dirty.ratio": ("0.5", "0", "1", "0.25"),
    "compression.type": ("zstd", "producer", "lz4"),
    "confluent.tier.enable": ODD,
    "consumer.session.timeout.ms": ("45000", "60000", "50001"),
    "consumer.heartbeat.interval.ms": ("5000", "15000"),
    "share.auto.offset.reset": ("latest", "by_duration:PT1H"),
    "share.isolation.level": ("read_committed", "read_uncommitted"),
}


@dataclass
class Writer:
    """Writes a mapping as YAML, its style drawn anew at each turn; every comment has a number of its own."""

    draw: DrawFn
    step: int
    commented: bool
    wraps: bool
    marks: int = 0

    def sometimes(self, share: int) -> bool:
        """True once in so many times."""
        return self.draw(st.integers(1, share)) == 1

    def comment(self) -> str:
        self.marks += 1
        text = self.draw(st.sampled_from(["", " why", " a: 1", "'", ' "', " {", " - x", " é"]))
        return f"#~{self.marks}{text}"

    def trailing(self) -> str:
        if not self.commented or not self.sometimes(4):
            return ""
        return self.draw(st.sampled_from([" ", "   ", "\t"])) + self.comment()

    def key(self, name: str) -> str:
        return self.draw(st.sampled_from([name, name, name, f"'{name}'", f'"{name}"']))

    def block(self, data: dict[str, Any], indent: int) -> list[str]:
        lines = []
        for name, value in data.items():
            if self.commented and self.sometimes(5):
                lines.append(" " * self.draw(st.sampled_from([indent, indent + 2])) + self.comment())
            if self.sometimes(12):
                lines.append("")
            lead = " " * indent + self.key(name) + ":"
            if isinstance(value, dict) and value and not self.sometimes(3):
                lines.append(lead + self.trailing())
                lines += self.block(value, indent + self.step)
            elif isinstance(value, str) and value.startswith("[") and self.sometimes(2):
                dash = " " * (indent + self.draw(st.sampled_from([0, self.step])))
                lines.append(lead + self.trailing())
                lines += [f"{dash}- {item}{self.trailing()}" for item in value[1:-1].split(", ")]
            else:
                lines += f"{lead} {self.flow(value, indent)}{self.trailing()}".split("\n")
        return lines

    def flow(self, value: Any, indent: int) -> str:
        if not isinstance(value, dict):
            if re.search(r"^by_|^x y", value):
                return f"'{value}'"
            return f"'{value}'" if "," in value and value[0] not in "'\"[" else value
        if not value:
            return self.draw(st.sampled_from(["{}", "{ }"]))
        parts = [f"{self.key(name)}: {self.flow(below, indent + self.step)}" for name, below in value.items()]
        last = self.draw(st.sampled_from(["", "", ","]))
        if self.wraps and self.sometimes(3):
            deeper = "\n" + " " * (indent + self.step)
            lines = [f"{part},{self.trailing()}" for part in parts[:-1]] + [
                parts[-1] + last + self.trailing()
            ]
            return "{" + deeper + deeper.join(lines) + "\n" + " " * indent + " }"
        gap = self.draw(st.sampled_from(["", " "]))
        return "{" + gap + self.draw(st.sampled_from([", ", ",  "])).join(parts) + last + gap + "}"


@st.composite
def layers(draw: DrawFn, kind: str, *, least: bool) -> dict[str, Any]:
    """A spec without overrides; `least`: with all that a manifest needs."""
    spec: dict[str, Any] = {}
    if kind == "Topic":
        for name in ("partitions", "replicationFactor"):
            if least or draw(st.booleans()):
                spec[name] = str(draw(st.integers(1, 30)))
    elif least:
        spec["topics"] = "[t.v1, u]"
    names = draw(st.lists(st.sampled_from(sorted(SPELLINGS[kind])), unique=True, max_size=5))
    config = {name: draw(st.sampled_from(SPELLINGS[kind][name])) for name in names}
    limits = {
        field: config.pop(name)
        for name, field in (("retention.ms", "time"), ("retention.bytes", "bytes"))
        if name in config and draw(st.booleans())
    }
    if "time" in limits and len(limits) == 1 and draw(st.booleans()):
        spec["retention"] = limits["time"]
    elif limits:
        spec["retention"] = limits
    if config or draw(st.integers(1, 8)) == 1:
        spec["config"] = config
    if draw(st.booleans()):
        spec["deletionProtection"] = draw(st.sampled_from(["true", "false"]))
    if draw(st.integers(1, 10)) == 1:
        spec["state"] = draw(st.sampled_from(["absent", "present"]))
    items = list(spec.items())
    return dict(draw(st.permutations(items)) if draw(st.booleans()) else items)


@dataclass(frozen=True)
class Case:
    """A file of manifests, what it is read with in each environment, and edits in one of them.

    It is odd if it may have forms that are not edited.
    """

    text: str
    contexts: tuple[Context, ...]
    edits: tuple[Edit, ...]
    odd: bool = False

    @property
    def context(self) -> Context:
        return self.contexts[0]


@st.composite
def cases(draw: DrawFn, *, odd: bool = False) -> Case:
    """A file, contexts (the one to edit first), and valid edits; `odd`: in forms that are not edited, too."""
    environments = draw(st.sampled_from([None, None, ENVIRONMENTS[:1], ENVIRONMENTS[:2], ENVIRONMENTS]))
    refs = [
        ResourceRef(draw(st.sampled_from(["Topic", "Topic", "ConsumerGroup"])), f"r{number}")
        for number in range(draw(st.integers(1, 3)))
    ]
    documents = []
    marks = 0
    for ref in refs:
        spec = draw(layers(ref.kind, least=True))
        overrides = {
            name: draw(layers(ref.kind, least=False)) for name in environments or () if draw(st.booleans())
        }
        if odd and ref.kind == "Topic" and overrides and draw(st.sampled_from([False, True])):
            spec = {"partitions": f"&n {spec.pop('partitions')}", **spec, "replicationFactor": "*n"}
            next(iter(overrides.values()))["partitions"] = "*n"
        if overrides:
            spec["overrides"] = overrides
        writer = Writer(draw, draw(st.integers(1, 4)), draw(st.booleans()), odd, marks)
        data = {"apiVersion": "kafkaform/v1", "kind": ref.kind, "metadata": {"name": ref.name}, "spec": spec}
        lines = [writer.flow(data, 0)] if writer.sometimes(8) else writer.block(data, 0)
        documents.append("\n".join(lines))
        marks = writer.marks
    text = draw(st.sampled_from(["", "---\n", "\n\n", "%YAML 1.2\n---\n"])) + "\n---\n".join(documents)
    text += draw(st.sampled_from(["\n", "\n", "", "\n\n", "\n...\n"]))
    if draw(st.integers(1, 4)) == 1:
        text = text.replace("\n", "\r\n")
    if draw(st.integers(1, 8)) == 1:
        text = "\ufeff" + text
    known = environments or (None,)
    defaults = {name: draw(underneath()) for name in known}
    chosen = draw(st.permutations(known))
    contexts = tuple(Context(environments, name, defaults[name]) for name in chosen)
    edits = draw(st.lists(edits_of(refs), min_size=1, max_size=5, unique_by=lambda e: (e.ref, e.path)))
    return Case(text, contexts, tuple(edits), odd)


@st.composite
def underneath(draw: DrawFn) -> dict[str, Any]:
    """The defaults of one environment."""
    if draw(st.booleans()):
        return {}
    names = draw(st.lists(st.sampled_from(sorted(SPELLINGS["Topic"])), unique=True, max_size=4))
    config = {name: draw(st.sampled_from(VALUES[name])) for name in names}
    return {"Topic": ({"partitions": 6, "config": config},)}


@st.composite
def edits_of(draw: DrawFn, refs: list[ResourceRef]) -> Edit:
    """An edit that a manifest can say."""
    ref = draw(st.sampled_from(refs))
    path = draw(st.sampled_from([*(f"config.{name}" for name in SPELLINGS[ref.kind]), "counts", "state"]))
    if path == "state":
        return Edit(ref, path, draw(st.sampled_from(["absent", None])))
    if path == "counts" and ref.kind == "Topic":
        counts = st.sampled_from(["partitions", "replicationFactor"])
        return Edit(ref, draw(counts), draw(st.integers(1, 40)))
    if path == "counts":
        path = "config.share.isolation.level"
    value = st.none() | st.sampled_from(VALUES[path.removeprefix("config.")])
    return Edit(ref, path, draw(value))


def read_declared(desired: Desired) -> dict[str, FieldValue]:
    """Return all managed fields of a manifest, of a tombstone too, with nulls left out."""
    spec = desired.intent.spec
    fields: dict[str, Any] = {name: spec.get(name) for name in ("partitions", "replicationFactor")}
    fields |= {f"config.{name}": value for name, value in dict(spec.get("config", {})).items()}  # type: ignore[call-overload]
    fields["state"] = "absent" if spec.get("state") == "absent" else None
    return {name: value for name, value in fields.items() if value is not None}


def read_by_environment(path: Path, case: Case) -> list[dict[ResourceRef, dict[str, FieldValue]]]:
    """Return the values of a file, by environment; that of the edits first."""
    return [
        {desired.ref: read_declared(desired) for desired in found}
        for found in load_all([path], list(case.contexts))
    ]


def write(path: Path, case: Case, edits: tuple[Edit, ...]) -> list[Edit]:
    """Make edits, and return those that are refused."""
    desired = load_all([path], [case.context])[0]
    editing = edit_manifests(edits, desired, case.context)
    assert len(editing.files) <= 1
    write_edits(editing)
    return [edit for edit, _ in editing.refused]


@given(st.one_of(cases(), cases(odd=True)))
def test_edits_set_requested_values_only(case: Case) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "m.yaml")
        path.write_bytes(case.text.encode())
        before = read_by_environment(path, case)
        refused = write(path, case, case.edits)
        chosen, *remaining = read_by_environment(path, case)
        after = path.read_bytes().decode()
        # Values that are declared already change nothing.
        same = tuple(replace(edit, value=chosen[edit.ref].get(edit.path)) for edit in case.edits)
        assert not write(path, case, same) or case.odd
        assert path.read_bytes().decode() == after
    assert case.odd or not refused
    wanted = {ref: {**fields} for ref, fields in before[0].items()}
    for edit in case.edits:
        if edit in refused:
            continue
        wanted[edit.ref] = {name: value for name, value in wanted[edit.ref].items() if name != edit.path}
        if edit.value is not None:
            wanted[edit.ref][edit.path] = edit.value
    for ref, fields in wanted.items():
        assert fields.keys() == chosen[ref].keys()
        for name, value in fields.items():
            assert KINDS[ref.kind].field(name).equal(value, chosen[ref][name])
    assert remaining == before[1:]
    assert MARK.findall(after) == MARK.findall(case.text)
    assert outlines(after) == outlines(case.text)
    check_form(case, after)


def outlines(text: str) -> list[object]:
    """Return the text around the specs as another reader of YAML than the loader sees it."""
    plain = text.removeprefix("\ufeff").replace("\t", " ")  # it takes no tab, not even before a comment
    found = YAML(typ="safe", pure=True).load_all(plain)
    return [{name: value for name, value in data.items() if name != "spec"} for data in found]


def check_form(case: Case, after: str) -> None:
    """The byte order mark, the line breaks and the end stay, and all lines but the few that are edited."""
    assert after.startswith("\ufeff") == case.text.startswith("\ufeff")
    assert after.endswith("\n") == case.text.endswith("\n")
    if "\r\n" in case.text:
        assert "\n" not in after.replace("\r\n", "")
    else:
        assert "\r" not in after
    changed = [line[0] for line in ndiff(case.text.splitlines(), after.splitlines())]
    # At most, a list of two goes with the three mappings that it leaves empty, or comes with them.
    assert max(changed.count("+"), changed.count("-")) <= 6 * len(case.edits)
    names = {edit.ref.name for edit in case.edits}
    for number, (old, new) in enumerate(
        zip(re.split(r"(?m)^---\r?$", case.text), re.split(r"(?m)^---\r?$", after), strict=True)
    ):
        if not any(re.search(rf"\b{name}\b", old) for name in names):
            assert old == new, number
