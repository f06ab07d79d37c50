"""A live resource as a manifest that kafkaform would read back without finding a difference.

The name of its file is chosen here, too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import yaml

from kafkaform.config.manifests.files import CONFIG_FILE
from kafkaform.config.manifests.loader import API_VERSION
from kafkaform.config.manifests.scalars import is_plainly_text, written
from kafkaform.core.model import CONFIG_PREFIX, ResourceRef, Undeclared
from kafkaform.core.printable import is_plain, printable
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkaform.core.model import Observed


_ODD = re.compile(r"[^\n\x20-\x7e]")

NO_DEFAULTS: Mapping[str, object] = MappingProxyType({})
"""That nothing lies under a manifest."""

NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LiveManifest:
    """A manifest made of a live resource.

    Attributes:
        data: The manifest.
        left_out: What no manifest can say, and why; a line each.
    """

    data: Mapping[str, Any]
    left_out: tuple[str, ...] = ()

    def to_yaml(self) -> str:
        """As a YAML document that means the same to readers of YAML 1.1 and 1.2, in plain characters."""
        # Characters that a terminal acts on, or hides, are legal in quotes: then all but ASCII is escaped.
        unicode = all(text == printable(text) for text in _texts(self.data))
        text = yaml.dump(
            self.data,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=unicode,
            default_flow_style=False,
            width=float("inf"),
        )
        # Manifests refuse ${…} as a slip; a text that has it is in quotes, where this is an escape.
        return str(text).replace("${", r"\x24{")

    def to_json(self) -> str:
        """The same as JSON, which is YAML too as long as no odd character beyond U+FFFF is in it."""
        text = json.dumps(self.data, indent=2, ensure_ascii=False).replace("${", r"\u0024{")
        return _ODD.sub(lambda found: found[0] if is_plain(found[0]) else json.dumps(found[0])[1:-1], text)


def live_manifest(
    observed: Observed, under: Mapping[str, object] = NO_DEFAULTS, labels: Mapping[str, str] = NO_LABELS
) -> LiveManifest:
    """Write a live resource as a manifest: own values only, in human units where they are exact.

    What is not to be seen on the cluster (members expected, where to start, whether keys matter) is not
    made up.

    Args:
        observed: The resource.
        under: The defaults that will lie under the manifest, as one layer in normal form: what they say
            is not said again, and what they say and the resource does not have is taken away by a null.
        labels: The labels of the manifest.
    """
    left_out: list[str] = []
    config = _config(observed, under, left_out)
    spec = KINDS[observed.ref.kind].written(observed, config, under, left_out)
    spec = {name: value for name, value in spec.items() if name not in under or under[name] != value}
    if config:
        spec["config"] = config
    if under.get("state") == "absent":
        spec["state"] = "present"
    if left_out and under.get("undeclared") == Undeclared.RESET:
        spec["undeclared"] = Undeclared.REPORT.value  # or a plan would take away what is not written here
    data = {
        "apiVersion": API_VERSION,
        "kind": observed.ref.kind,
        "metadata": {"name": observed.ref.name} | ({"labels": dict(labels)} if labels else {}),
        "spec": spec,
    }
    return LiveManifest(data, tuple(left_out))


def _config(observed: Observed, under: Mapping[str, object], left_out: list[str]) -> dict[str, Any]:
    """The resource's own configs, as far as a manifest can declare them and no default says the same."""
    kind = KINDS[observed.ref.kind]
    keys = kind.configs()
    defaults = cast("Mapping[str, str | None]", under.get("config", {}))
    config: dict[str, Any] = {
        name: None
        for name, value in defaults.items()
        if value is not None and CONFIG_PREFIX + name not in observed.state
    }
    for path, value in observed.state.items():
        if not path.startswith(CONFIG_PREFIX) or kind.ignores(path):
            continue
        name = path.removeprefix(CONFIG_PREFIX)
        if value is None:
            left_out.append(f"{name}: Kafka never shows its value")
            continue
        if name in defaults and kind.equal(path, defaults[name], value):
            continue
        said = written(keys.get(name), str(value))
        problem = _problem(observed.ref, name, str(said), str(value))
        if problem is None:
            config[name] = said
        else:
            left_out.append(f"{name} = {value}: {problem}")
    left_out.sort()
    return dict(sorted(config.items()))


def _problem(ref: ResourceRef, name: str, written: str, value: str) -> str | None:
    """Why a manifest cannot say that a config has a value; None if it can."""
    kind = KINDS[ref.kind]
    problems: list[str] = []

    def report(_: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False) -> None:  # noqa: ARG001
        problems.append(message)

    normal = kind.normalise({"config": {name: written}}, report).get("config", {})
    if problems:
        return problems[0]
    said = normal.get(name) if isinstance(normal, dict) else None
    same = kind.equal(CONFIG_PREFIX + name, said, value)
    return None if same else f"a manifest would say {said!r}"


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from _texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that is not plainly one, and indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent the items of a list too."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Write everything out."""
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if is_plainly_text(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


SUFFIX = ".yaml"

_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}", re.ASCII)  # with the suffix no more than 255 bytes
_STRANGE = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
)
"""What Windows takes for a device, whatever follows the first dot."""
_KEPT = 200
"""Characters that are kept of a name that cannot stay as it is."""


def prefix(name: str) -> str:
    """What comes before the first dot of a name, or, in one without a dot, before the first `-` or `_`."""
    head = name.partition(".")[0] if "." in name else re.split("[-_]", name, maxsplit=1)[0]
    return head or name


def file_names(names: Iterable[str]) -> Mapping[str, str]:
    """A name of a file for each name, no two the same where upper and lower case are.

    A hash of the name follows a `~` where the name alone will not do: it is hidden, reserved or too long,
    has other characters than names of topics, or differs from an earlier one by case only.
    """
    taken: set[str] = set()
    made: dict[str, str] = {}
    for name in sorted(names):
        stem = name if _is_safe(name) and name.casefold() not in taken else _marked(name)
        taken.add(stem.casefold())
        made[name] = stem + SUFFIX
    return made


def _is_safe(name: str) -> bool:
    if not _SAFE.fullmatch(name) or f"{name}{SUFFIX}".casefold() == CONFIG_FILE:
        return False
    return name.partition(".")[0].casefold() not in _DEVICES


def _marked(name: str) -> str:
    plain = _STRANGE.sub("_", name)[:_KEPT]
    lead = "" if _is_safe(plain) else "_"
    return f"{lead}{plain}~{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
