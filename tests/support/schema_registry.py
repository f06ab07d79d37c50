"""A schema registry in memory, with the answers of Apicurio 2.6.13 and Confluent's API, and a real one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from kafkaform.cluster.schema_registry import RegistryResponse
from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.ports import find_free_ports
from kafkaform.devcluster.processes import end_processes, find_processes
from kafkaform.devcluster.registry import fetch_registry, launch_registry
from kafkaform.devcluster.state import Registry
from kafkaform.resources.subject.fields import GUARANTEES

_NOT_FOUND = 404


@dataclass
class _Subject:
    versions: list[dict[str, Any]] = field(default_factory=list)
    level: str | None = None


@dataclass
class MemoryRegistry:
    """Subjects with their versions and levels.

    Attributes:
        level: The level of subjects without an own one.
        requests: The method and the path of every request.
    """

    level: str = "NONE"
    requests: list[tuple[str, str]] = field(default_factory=list)
    _subjects: dict[str, _Subject] = field(default_factory=dict)
    _ids: list[str] = field(default_factory=list)

    def handle(self, method: str, path: str, body: Any) -> RegistryResponse:
        self.requests.append((method, path))
        parts = urlsplit(path)
        steps = [unquote(step) for step in parts.path.strip("/").split("/")]
        normalises = parse_qs(parts.query).get("normalize") == ["true"]
        match method, steps:
            case "GET", ["subjects"]:
                return RegistryResponse(200, sorted(self._subjects))
            case "PUT", ["config", name] if name in self._subjects:
                self._subjects[name].level = body["compatibility"]
                return RegistryResponse(200, body)
            case "GET", ["config", name] if name in self._subjects:
                return RegistryResponse(200, {"compatibilityLevel": self._subjects[name].level or self.level})
            case "POST", ["subjects", name, "versions"]:
                return self._register(name, body)
            case _, ["subjects" | "config", name, *_] | ["compatibility", "subjects", name, *_] if (
                name not in self._subjects
            ):
                return RegistryResponse(
                    _NOT_FOUND, {"error_code": 40401, "message": f"Subject '{name}' not found."}
                )
            case "GET", ["subjects", name, "versions", "latest"]:
                return RegistryResponse(200, self._subjects[name].versions[-1])
            case "POST", ["subjects", name]:
                return self._look_up(name, body, normalises=normalises)
            case "POST", ["compatibility", "subjects", name, "versions", "latest"]:
                reasons = self._find_incompatible(name, body)
                return RegistryResponse(200, {"is_compatible": not reasons, "messages": reasons})
            case "DELETE", ["subjects", name]:
                return RegistryResponse(200, [each["version"] for each in self._subjects.pop(name).versions])
            case _:
                raise AssertionError(f"no registry offers {method} {path}")

    def _register(self, name: str, body: Any) -> RegistryResponse:
        try:
            schema = json.loads(body["schema"])
        except ValueError:
            return RegistryResponse(422, {"error_code": 42201, "message": "Invalid schema"})
        if name in self._subjects and (reasons := self._find_incompatible(name, body)):
            return RegistryResponse(409, {"error_code": 409, "message": "; ".join(reasons)})
        subject = self._subjects.setdefault(name, _Subject())
        if subject.versions and _simplify(json.loads(subject.versions[-1]["schema"])) == _simplify(schema):
            return RegistryResponse(200, {"id": subject.versions[-1]["id"]})
        if body["schema"] not in self._ids:
            self._ids.append(body["schema"])
        number = self._ids.index(body["schema"]) + 1
        version = {
            "subject": name,
            "version": len(subject.versions) + 1,
            "id": number,
            "references": [],
            **body,
        }
        subject.versions.append(version)
        return RegistryResponse(200, {"id": number})

    def _look_up(self, name: str, body: Any, *, normalises: bool) -> RegistryResponse:
        form: Callable[[Any], Any] = _simplify if normalises else (lambda schema: schema)
        for version in reversed(self._subjects[name].versions):
            if form(json.loads(version["schema"])) == form(json.loads(body["schema"])):
                return RegistryResponse(200, version)
        return RegistryResponse(_NOT_FOUND, {"error_code": 40403, "message": "Schema not found"})

    def _find_incompatible(self, name: str, body: Any) -> list[str]:
        """Return the fields by which a record is not compatible with the latest version."""
        subject = self._subjects[name]
        guarantees = GUARANTEES[subject.level or self.level]
        old, new = (
            {each["name"]: each for each in json.loads(text).get("fields", ())}
            for text in (subject.versions[-1]["schema"], body["schema"])
        )
        added = [each for each in new.values() if each["name"] not in old and "default" not in each]
        removed = [each for each in old.values() if each["name"] not in new and "default" not in each]
        wrong = [*(added if "backward" in guarantees else ()), *(removed if "forward" in guarantees else ())]
        return [f"READER_FIELD_MISSING_DEFAULT_VALUE: {each['name']}" for each in wrong]


def _simplify(schema: Any) -> Any:
    """Return the normal form: `{"type": "string"}` is `"string"`."""
    if isinstance(schema, list):
        return [_simplify(each) for each in schema]
    if isinstance(schema, dict):
        if schema.keys() == {"type"}:
            return _simplify(schema["type"])
        return {key: _simplify(value) for key, value in schema.items()}
    return schema


@contextmanager
def run_registry(directory: Path) -> Iterator[str]:
    """Run Apicurio Registry, and return its address for `schema.registry.url`."""
    registry = Registry(find_free_ports(1)[0], uuid.uuid4().hex)
    launch_registry(find_java(), fetch_registry(), registry, directory, timeout_s=120)
    try:
        yield registry.url
    finally:
        end_processes(find_processes({str(registry.token)})[str(registry.token)], grace_s=0)
