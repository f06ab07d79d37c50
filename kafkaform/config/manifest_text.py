"""Manifests of live resources, whose plan has no change, and the names of their files."""

from __future__ import annotations

import json
import os
import re
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import yaml

from kafkaform.config.manifests.files import CONFIG_FILE
from kafkaform.config.manifests.loader import API_VERSION
from kafkaform.config.manifests.scalars import format_value, is_plainly_text
from kafkaform.config.manifests.templates import escape_templates
from kafkaform.config.manifests.yaml12 import Unquoted
from kafkaform.core.acls import EVERYONE, USER_PREFIX
from kafkaform.core.model import CONFIG_PREFIX, Observed, ResourceRef, Undeclared
from kafkaform.core.printable import escape_text, is_plain
from kafkaform.core.schema_files import find_marked
from kafkaform.core.values import Value, field
from kafkaform.resources import KINDS
from kafkaform.resources.base import config_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NOT_ASCII = re.compile(r"[^\n\x20-\x7e]")

MANIFEST_SCHEMA = "manifest"
"""The schema of editors, of manifests of any kind."""
SCHEMA_MARK = "yaml-language-server"
"""The word in a comment by which editors find the schema of a file."""
NO_DEFAULTS: Mapping[str, object] = MappingProxyType({})
"""No defaults under a manifest."""


class Additions(Value):
    """The parts of a manifest that no cluster stores.

    Attributes:
        spec: Fields of its spec.
    """

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    spec: dict[str, object] = field(default_factory=dict)


NO_ADDITIONS = Additions()


class LiveManifest(Value):
    """The manifest of a live resource.

    Attributes:
        left_out: What it lacks, with the reason, one line each.
        undeclarable: Those of these lines that are about a known value that no manifest can declare.
        suffixes: For each text of the spec that may be in a file of its own, the end of the file's name.
    """

    data: Mapping[str, Any]
    left_out: tuple[str, ...] = ()
    undeclarable: tuple[str, ...] = ()
    suffixes: Mapping[str, str] = field(default_factory=dict)

    def to_yaml(self) -> str:
        """Render a YAML document with the same meaning in YAML 1.1 and 1.2."""
        # Quoted YAML may contain control and invisible characters; if so, escape everything but ASCII.
        unicode = all(text == escape_text(text) for text in _walk_texts(self.data))
        text = yaml.dump(
            self.data,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=unicode,
            default_flow_style=False,
            # No line is folded, so that a diff shows whole values.
            width=float("inf"),
        )
        return escape_templates(str(text), r"\x", references=self._has_references)

    def to_json(self) -> str:
        """Render JSON, which is also YAML if it has no escaped character beyond U+FFFF."""
        text = json.dumps(self.data, indent=2, ensure_ascii=False)
        text = escape_templates(text, r"\u00", references=self._has_references)
        return _NOT_ASCII.sub(
            lambda match: match[0] if is_plain(match[0]) else json.dumps(match[0])[1:-1], text
        )

    @property
    def _has_references(self) -> bool:
        return bool(find_marked(KINDS[self.data["kind"]].schema, "x-secret"))


def render_schema_line(path: Path, schemas: Path) -> str:
    """Return the first line of a file of manifests, by which editors find its schema, and an empty line."""
    schema = schemas / f"{MANIFEST_SCHEMA}.schema.json"
    return f"# {SCHEMA_MARK}: $schema={Path(os.path.relpath(schema, path.parent)).as_posix()}\n\n"


def build_live_manifest(
    observed: Observed, under: Mapping[str, object] = NO_DEFAULTS, added: Additions = NO_ADDITIONS
) -> LiveManifest:
    """Build the manifest of a live resource, with explicitly set values only, in human units if exact.

    Fields that the cluster does not store (expected members, initial offsets, whether keys matter) are
    omitted.

    Args:
        under: The defaults under the manifest, as one layer in normal form. Values equal to them are omitted;
            defaults that the resource does not have are set to null.
        added: The parts that the cluster does not store.
    """
    undeclarable: list[str] = []
    left_out: list[str] = []
    config = _build_config(observed, under, left_out, undeclarable)
    written = KINDS[observed.ref.kind].write(observed, config, under)
    left_out += written.left_out
    spec = {name: value for name, value in written.spec.items() if name not in under or under[name] != value}
    if not spec.get("config"):
        spec.pop("config", None)
    # Defaults may declare tombstones: a live resource must then say that it is present.
    if under.get("state") == "absent":
        spec["state"] = "present"
    if left_out and under.get("undeclared") == Undeclared.RESET:
        spec["undeclared"] = Undeclared.REPORT.value  # else a plan would reset the omitted values
    sections = {"labels": dict(added.labels), "annotations": dict(added.annotations)}
    data = {
        "apiVersion": API_VERSION,
        "kind": observed.ref.kind,
        "metadata": {"name": written.name or observed.ref.name}
        | {name: section for name, section in sections.items() if section},
        "spec": spec | added.spec,
    }
    return LiveManifest(data, tuple(left_out), tuple(undeclarable), written.suffixes)


def _build_config(
    observed: Observed, under: Mapping[str, object], left_out: list[str], undeclarable: list[str]
) -> dict[str, Any]:
    """Return the configs that a manifest can declare and that differ from the defaults under it."""
    kind = KINDS[observed.ref.kind]
    keys = config_keys(kind)
    defaults = cast("Mapping[str, str | None]", under.get("config", {}))
    config: dict[str, Any] = {
        name: None
        for name, value in defaults.items()
        if value is not None and CONFIG_PREFIX + name not in observed.state
    }
    for path, value in observed.state.items():
        if not path.startswith(CONFIG_PREFIX) or kind.field(path).ignored:
            continue
        name = path.removeprefix(CONFIG_PREFIX)
        if value is None:
            # Brokers return sensitive configs without a value.
            left_out.append(f"{name}: Kafka does not return its value")
            continue
        # Inherited: the same value in every manifest would hide what is special about one.
        if name in defaults and kind.field(path).equal(defaults[name], value):
            continue
        formatted = format_value(keys.get(name), str(value))
        # Written only if it reads back as the live value: the plan of an import must be empty.
        problem = _find_problem(observed.ref, name, str(formatted), str(value))
        if problem is None:
            config[name] = formatted
        else:
            left_out.append(f"{name} = {value}: {problem}")
            # A config that this version does not know may be of a later Kafka.
            undeclarable += [left_out[-1]] if name in keys else []
    left_out.sort()
    return dict(sorted(config.items()))


def _find_problem(ref: ResourceRef, name: str, written: str, value: str) -> str | None:
    """Return the reason why a manifest cannot declare a config's value; None if it can."""
    kind = KINDS[ref.kind]
    problems: list[str] = []

    def report(_: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False) -> None:  # noqa: ARG001
        problems.append(message)

    # By the code that reads manifests, so that both have one notion of a valid value.
    normal = kind.normalise({"config": {name: written}}, report).get("config", {})
    if problems:
        return problems[0]
    declared = normal.get(name) if isinstance(normal, dict) else None
    same = kind.field(CONFIG_PREFIX + name).equal(declared, value)
    return None if same else f"a manifest would declare {declared!r}"


def _walk_texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from _walk_texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from _walk_texts(value)


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes texts that could be read as another type, and indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent the items of lists too."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Write repeated values in full."""
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # Readers of YAML 1.1 take an unquoted `no` for false and `1:30` for 90.
    style = None if is_plainly_text(text) else '"'
    # Lines of printable ASCII mean the same in a block, and can be read there, such as those of a schema.
    if "\n" in text and text.isascii() and text.replace("\n", "").isprintable():
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_unquoted(dumper: _Dumper, text: Unquoted) -> yaml.ScalarNode:
    tag = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return dumper.represent_scalar(tag, text)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(Unquoted, _represent_unquoted)


SUFFIX = ".yaml"

_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._=,@+-]{0,248}", re.ASCII)  # at most 255 bytes with the suffix
_UNSAFE = re.compile(r"[^A-Za-z0-9._=,@+-]+", re.ASCII)
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
)
"""The names of devices on Windows, whatever follows the first dot."""
_KEPT_LENGTH = 200
"""In characters; the part of a name that is kept before a hash."""


def get_prefix(name: str) -> str:
    """Return the part of a name before the first dot, or, without a dot, before the first `-` or `_`."""
    head = name.partition(".")[0] if "." in name else re.split("[-_]", name, maxsplit=1)[0]
    return head or name


def choose_file_names(names: Iterable[str]) -> Mapping[str, str]:
    """Choose a file name for each name, unique on file systems that ignore case.

    Of a principal, that is its name without the type `User`; other characters than those of topics and of
    certificates become `_`. `~` and a hash are appended to a name that is hidden, reserved or too long, has
    none of these characters, or gives the same file as an earlier one.
    """
    taken: set[str] = set()
    chosen: dict[str, str] = {}
    # Sorted, so that each name gets the same file in every import; names that stay as they are come first.
    for name in sorted(names, key=lambda name: (_make_stem(name) != name, name)):
        stem = _make_stem(name)
        if not _is_safe(stem) or stem.casefold() in taken:
            kept = stem[:_KEPT_LENGTH]
            lead = "" if _is_safe(kept) else "_"
            digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
            stem = f"{lead}{kept}~{digest[:8]}"
        taken.add(stem.casefold())
        chosen[name] = stem + SUFFIX
    return chosen


def _make_stem(name: str) -> str:
    return "everyone" if name == EVERYONE else _UNSAFE.sub("_", name.removeprefix(USER_PREFIX))


def _is_safe(stem: str) -> bool:
    # A file named kafkaform.yaml would be taken for the configuration.
    if not _SAFE.fullmatch(stem) or f"{stem}{SUFFIX}".casefold() == CONFIG_FILE or not stem.strip("_"):
        return False
    return stem.partition(".")[0].casefold() not in _DEVICES
