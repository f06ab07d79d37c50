"""A schema registry in memory, with the answers of Apicurio 2.6.13 and Confluent's API, and a real one."""

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
from kafkaform.resources.subject.fields import ALL_VERSIONS, GUARANTEES


@dataclass
class _Subject:
    """All versions, of which the first ones may be deleted, until they are deleted permanently."""

    versions: list[dict[str, Any]] = field(default_factory=list)
    level: str | None = None
    deleted: int = 0

    @property
    def live(self) -> list[dict[str, Any]]:
        return self.versions[self.deleted :]


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
        steps, query = [unquote(step) for step in parts.path.strip("/").split("/")], parse_qs(parts.query)
        normalises, deleted = (query.get(name) == ["true"] for name in ("normalize", "deleted"))
        match method, steps:
            case "GET", ["subjects"]:
                return RegistryResponse(200, sorted(key for key, each in self._subjects.items() if each.live))
            case "POST", ["subjects", name, "versions"]:
                return self._register(name, body)
            case "DELETE", ["subjects", name] if name in self._subjects:
                return self._delete(name, permanent=query.get("permanent") == ["true"])
        name = steps[2 if steps[0] == "compatibility" else 1]
        subject = self._subjects.get(name, _Subject())
        versions = {each["version"]: each for each in (subject.versions if deleted else subject.live)}
        if not versions:
            return _refuse(40401, f"Subject '{name}' not found.")
        match method, steps:
            case "PUT", ["config", _]:
                subject.level = body["compatibility"]
                return RegistryResponse(200, body)
            case "GET", ["config", _]:
                return RegistryResponse(200, {"compatibilityLevel": subject.level or self.level})
            case "GET", ["subjects", _, "versions"]:
                return RegistryResponse(200, [*versions])
            case "GET", ["subjects", _, "versions", "latest"]:
                return RegistryResponse(200, versions[max(versions)])
            case "GET", ["subjects", _, "versions", number]:
                return RegistryResponse(200, versions[int(number)])
            case "POST", ["subjects", _]:
                return self._look_up(subject, body, normalises=normalises)
            case "POST", ["compatibility", "subjects", _, "versions", number]:
                version = versions[max(versions) if number == "latest" else int(number)]
                reasons = self._find_incompatible(subject, version, body)
                return RegistryResponse(200, {"is_compatible": not reasons, "messages": reasons})
            case _:
                raise AssertionError(f"no registry offers {method} {path}")

    def forget(self, name: str) -> None:
        """Delete a subject permanently, by other hands."""
        del self._subjects[name]

    def _delete(self, name: str, *, permanent: bool) -> RegistryResponse:
        subject = self._subjects[name]
        if permanent and subject.live:
            return _refuse(40405, f"Subject '{name}' was not deleted first before being permanently deleted")
        if not permanent and not subject.live:
            return _refuse(40404, f"Subject '{name}' was soft deleted.")
        gone = [each["version"] for each in (subject.versions if permanent else subject.live)]
        subject.deleted = len(subject.versions)
        if permanent:
            del self._subjects[name]
        return RegistryResponse(200, gone)

    def _register(self, name: str, body: Any) -> RegistryResponse:
        try:
            schema = json.loads(body["schema"])
        except ValueError:
            return RegistryResponse(422, {"error_code": 42201, "message": "Invalid schema"})
        subject = self._subjects.setdefault(name, _Subject())
        all_versions = ALL_VERSIONS in GUARANTEES[subject.level or self.level]
        compared = subject.live[0 if all_versions else -1 :]
        if reasons := [text for each in compared for text in self._find_incompatible(subject, each, body)]:
            return RegistryResponse(409, {"error_code": 409, "message": "; ".join(reasons)})
        if subject.live and _simplify(json.loads(subject.live[-1]["schema"])) == _simplify(schema):
            return RegistryResponse(200, {"id": subject.live[-1]["id"]})
        if body["schema"] not in self._ids:
            self._ids.append(body["schema"])
        number = self._ids.index(body["schema"]) + 1
        place = {"subject": name, "version": len(subject.versions) + 1, "id": number}
        subject.versions.append({**place, "references": [], **body})
        return RegistryResponse(200, {"id": number})

    def _look_up(self, subject: _Subject, body: Any, *, normalises: bool) -> RegistryResponse:
        form: Callable[[Any], Any] = _simplify if normalises else (lambda schema: schema)
        for version in reversed(subject.live):
            if form(json.loads(version["schema"])) == form(json.loads(body["schema"])):
                return RegistryResponse(200, version)
        return _refuse(40403, "Schema not found")

    def _find_incompatible(self, subject: _Subject, version: Any, body: Any) -> list[str]:
        guarantees = GUARANTEES[subject.level or self.level]
        old, new = (
            {each["name"]: each for each in json.loads(text).get("fields", ())}
            for text in (version["schema"], body["schema"])
        )
        added = [each for each in new.values() if each["name"] not in old and "default" not in each]
        removed = [each for each in old.values() if each["name"] not in new and "default" not in each]
        wrong = [*(added if "backward" in guarantees else ()), *(removed if "forward" in guarantees else ())]
        return [f"READER_FIELD_MISSING_DEFAULT_VALUE: {each['name']}" for each in wrong]


def _refuse(code: int, message: str) -> RegistryResponse:
    return RegistryResponse(404, {"error_code": code, "message": message})


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
