"""Reading and changing the subjects of a schema registry with Confluent's API.

The API is that of Confluent Schema Registry, Apicurio (`/apis/ccompat/v7`), Karapace and Redpanda.
`GET /schemas` and `/mode` are not used: Apicurio 2.6 lacks them.
"""

from __future__ import annotations

import json
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import SplitResult, quote, unquote, urlsplit

from kafkaform.config.client_properties.tls import create_tls_context
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    KafkaformError,
    LockLost,
    MalformedResponse,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
    UnusableCertificate,
    UsageError,
)
from kafkaform.core.http import call_within
from kafkaform.core.model import UNLISTED, Diagnostic, Observation, Observed, ResourceRef, Severity
from kafkaform.resources.subject import RegistryFacts, SubjectKind, SubjectVersions
from kafkaform.resources.subject.fields import (
    ALL_VERSIONS,
    COMPATIBILITY,
    DELETED,
    GUARANTEES,
    PURGED,
    SCHEMA,
    STATE,
)
from kafkaform.resources.subject.operations import AlterSubject, DeleteSubject, PurgeSubject
from kafkaform.resources.subject.schema import (
    AVRO,
    RegisteredSchema,
    SchemaReference,
    are_equal,
    compact,
    parse_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.core.lock import Guard
    from kafkaform.core.model import FieldValue, State
    from kafkaform.core.operations import Operation

CONNECTIONS = 8
"""The requests at the same time."""
TIMEOUT_S = 30.0
_MAX_RESPONSE_BYTES = 1 << 26
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND, _REJECTED, _OK = 404, frozenset({400, 409, 422}), 200
MAX_LISTED = 1_000
"""The subjects that Apicurio lists by default: it leaves out further ones, without a sign (tried on 2.6)."""
_NEXT_SUBJECTS = f"/subjects?offset={MAX_LISTED}"
_NOT_DELETED_BEFORE = 40405
"""The code for a permanent deletion of a subject that exists."""
_PREFIX = "schema.registry."

Outcome: TypeAlias = ClusterError | None


class RegistryResponse(NamedTuple):
    """A response: its status, and the JSON of its body; None if it is not JSON."""

    status: int
    data: Any


SendRequest: TypeAlias = "Callable[[str, str, object], RegistryResponse]"
"""Sends a request: its method, its path, and the content of its body, None for none.

Raises Unreachable if it was surely not carried out, OutcomeUnknown if it may have been.
"""


class SchemaRegistry:
    """A schema registry as the service of subjects.

    Args:
        address: Its address, for messages.
    """

    def __init__(self, request: SendRequest, address: str) -> None:
        self._request = request
        self._address = address

    def observe(
        self, refs: Mapping[ResourceRef, State], also: Callable[[ResourceRef], bool], *, listed: bool
    ) -> Observation:
        """Read subjects: their latest version, and the level in force."""
        inventory, notes = frozenset(refs), list[Diagnostic]()
        if listed:
            names = self._call("GET", "/subjects")
            if not isinstance(names, list):
                raise self._build_malformed_error()
            inventory = frozenset(ResourceRef(SubjectKind.name, str(name)) for name in names)
            # Newer registries of Confluent have pages; the others ignore the offset.
            if len(names) == MAX_LISTED and self._request("GET", _NEXT_SUBJECTS, None).data != []:
                text = f"the schema registry listed exactly {MAX_LISTED:,} subjects, and may have more"
                hint = "if it is Apicurio, raise its property registry.ccompat.max-subjects"
                notes.append(Diagnostic(UNLISTED, Severity.WARNING, text, suggestion=hint))
        wanted = sorted({*refs, *(ref for ref in inventory if also(ref))})
        resources: dict[ResourceRef, Observed] = {}
        invisible: dict[ResourceRef, str] = {}
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            for ref, read in zip(wanted, pool.map(lambda ref: self._try(ref, refs), wanted), strict=True):
                if isinstance(read, KafkaformError):
                    invisible[ref] = read.message
                elif read is not None:
                    resources[ref] = read
        levels = {
            ref.name: str(level)
            for ref, observed in resources.items()
            if (level := observed.state.get(COMPATIBILITY)) is not None
        }
        return Observation(
            resources,
            inventory if listed else frozenset(resources),
            invisible,
            tuple(notes),
            parts=(RegistryFacts(levels),),
        )

    def _try(self, ref: ResourceRef, refs: Mapping[ResourceRef, State]) -> Observed | ClusterError | None:
        try:
            return self._read(ref, refs.get(ref, {}))
        except (PermissionDenied, RequestRejected, MalformedResponse) as error:
            return error
        except (AttributeError, KeyError, TypeError, ValueError):
            return self._build_malformed_error()

    def _build_malformed_error(self) -> MalformedResponse:
        return MalformedResponse(f"{self._address} did not answer as a schema registry does")

    def _read(self, ref: ResourceRef, declared_state: State) -> Observed | None:
        path = f"/subjects/{quote(ref.name, safe='')}"
        latest = self._call("GET", f"{path}/versions/latest", missing=None)
        if latest is None and declared_state.get(STATE) == PURGED:
            kept = self._call("GET", f"{path}/versions?deleted=true", missing=[])
            return Observed(ref, None, {STATE: DELETED if kept else PURGED})
        if latest is None:
            return None
        config = self._call("GET", f"/config/{quote(ref.name, safe='')}?defaultToGlobal=true")
        live = _parse_schema(latest).to_value()
        versions = SubjectVersions(latest["version"], latest["id"])
        declared = declared_state.get(SCHEMA)
        # The registry knows equal forms that are not equal as JSON: it is asked for the declared one.
        if (
            live != declared
            and (wanted := parse_value(declared)) is not None
            and not are_equal(live, declared)
            and self._find_version(path, wanted) == latest["version"]
        ):
            live = str(declared)
        state: dict[str, FieldValue] = {SCHEMA: live, COMPATIBILITY: config["compatibilityLevel"]}
        return Observed(ref, None, state, state, live=versions)

    def _find_version(self, path: str, schema: RegisteredSchema) -> object:
        """Return the version that a schema is registered as; None if it is not, or not valid."""
        try:
            body = self._build_body(schema)
            return self._call("POST", f"{path}?normalize=true", body, missing={}).get("version")
        except RequestRejected:  # such as for a reference that the same plan registers
            return None

    def find_value(self, ref: ResourceRef, kept: FieldValue) -> FieldValue:
        """Return the version of a subject that has a digest, as a value; None if there is none."""
        wanted, path = parse_value(kept), f"/subjects/{quote(ref.name, safe='')}/versions"
        numbers = self._call("GET", f"{path}?deleted=true", missing=[]) if wanted is not None else []
        for number in reversed(numbers):
            # Apicurio 2.6 lists versions that were deleted, and does not return them.
            version = self._call("GET", f"{path}/{number}?deleted=true", missing=None)
            if version is not None and wanted is not None and wanted.sha256 == _parse_schema(version).sha256:
                return _parse_schema(version).to_value()
        return None

    def validate(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Have the registry check the compatibility of schemas with the versions that their level names."""
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            return [*pool.map(self._validate, operations)]

    def _validate(self, operation: Operation) -> Outcome:
        # There is nothing yet to be compatible with, and no request that checks a schema alone.
        if not isinstance(operation, AlterSubject) or operation.schema is None or operation.is_new:
            return None
        name = quote(operation.ref.name, safe="")
        try:
            level = str(self._call("GET", f"/config/{name}?defaultToGlobal=true")["compatibilityLevel"])
            later = operation.compatibility or level
            versions = ["latest"]
            if ALL_VERSIONS in GUARANTEES.get(later, ()):
                versions = self._call("GET", f"/subjects/{name}/versions")[::-1]
            incompatible = self._find_incompatible(name, operation.schema, versions)
        except RequestRejected as error:
            # Apicurio 2.6 reads the referenced schemas only when the schema is registered.
            if not operation.schema.references:
                return error
            text = f"the schema registry cannot check a schema with references: {error.message}"
            return ClusterError(text, hint=error.hint)
        except ClusterError as error:
            return error
        except (AttributeError, KeyError, TypeError, ValueError):
            return self._build_malformed_error()
        # The registry checks by the level that is in force, which may say more or less than the later one.
        now, then = (GUARANTEES.get(each, frozenset()) - {ALL_VERSIONS} for each in (level, later))
        if incompatible is None and then <= now:
            return None
        if incompatible is not None and now <= then:
            return incompatible
        text = f"the schema registry checks a schema by the level before this plan, {level}, not by {later}"
        return ClusterError(text) if then else None

    def _find_incompatible(
        self, name: str, schema: RegisteredSchema, versions: Sequence[object]
    ) -> RequestRejected | None:
        """Return why a schema is not compatible with one of some versions; None if it is with all."""
        body = self._build_body(schema)
        for version in versions:
            path = f"/compatibility/subjects/{name}/versions/{version}?normalize=true&verbose=true"
            checked = self._call("POST", path, body)
            if not isinstance(checked["is_compatible"], bool):
                raise TypeError
            if not checked["is_compatible"]:
                reasons = checked.get("messages") or [checked.get("reason") or "it gives no reason"]
                which = "the latest version" if version == versions[0] else f"version {version}"
                return RequestRejected(
                    f"the schema is not compatible with {which}: " + "; ".join(map(str, reasons)),
                    code="INCOMPATIBLE_SCHEMA",
                    hint="change the schema (such as a default for a new field), or register it as another "
                    "subject",
                )
        return None

    def execute(self, operations: Sequence[Operation], guard: Guard) -> list[Outcome]:
        """Carry out operations one after the other, subjects before those that refer to them."""
        outcomes: dict[int, Outcome] = {}
        unsent: LockLost | None = None
        for operation in _order_by_references(operations):
            try:
                if unsent is None:
                    guard()
                outcomes[id(operation)] = unsent or self._execute(operation)
            except LockLost as lost:
                outcomes[id(operation)] = unsent = lost
        return [outcomes[id(operation)] for operation in operations]

    def _execute(self, operation: Operation) -> Outcome:
        name = quote(operation.ref.name, safe="")
        try:
            match operation:
                case AlterSubject(schema=schema, compatibility=level, is_new=is_new):
                    # A new subject has no level before its first version; else, the level decides about it.
                    steps = [partial(self._register, name, schema)] if schema is not None else []
                    if level is not None:
                        steps.insert(len(steps) if is_new else 0, partial(self._set_level, name, level))
                    _take(steps)
                case DeleteSubject():
                    self._call("DELETE", f"/subjects/{name}", missing=None)
                case PurgeSubject():
                    self._call("DELETE", f"/subjects/{name}?permanent=true", missing=None)
                case _:
                    raise TypeError(f"a schema registry has no operation {type(operation).__name__}")
        except ClusterError as error:
            return error
        return None

    def _register(self, name: str, schema: RegisteredSchema) -> None:
        self._call("POST", f"/subjects/{name}/versions?normalize=true", self._build_body(schema))

    def _set_level(self, name: str, level: str) -> None:
        self._call("PUT", f"/config/{name}", {"compatibility": level})

    def _build_body(self, schema: RegisteredSchema) -> dict[str, object]:
        references = [
            {"name": each.name, "subject": each.subject, "version": each.version or self._find_latest(each)}
            for each in schema.references
        ]
        kind = {} if schema.type == AVRO else {"schemaType": schema.type}
        return {"schema": schema.text, **kind, **({"references": references} if references else {})}

    def _find_latest(self, reference: SchemaReference) -> int:
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/latest"
        latest = self._call("GET", path, missing=None)
        if latest is None:
            raise RequestRejected(
                f"the referenced subject {reference.subject} does not exist",
                code="SUBJECT_NOT_FOUND",
                hint="declare it, too: it is registered first",
            )
        return int(latest["version"])

    _RAISE: Any = object()

    def _call(self, method: str, path: str, body: object = None, *, missing: Any = _RAISE) -> Any:
        """Return the content of a response, or `missing` if there is no such subject or schema.

        Raises:
            ClusterError: The registry rejects the request, or gives no valid answer.
        """
        status, data = self._request(method, path, body)
        if status == _OK:
            if data is None:
                raise MalformedResponse(f"{self._address} did not answer with JSON: is it a schema registry?")
            return data
        error = data if isinstance(data, dict) else {}
        if (
            status == _NOT_FOUND
            and missing is not self._RAISE
            and error.get("error_code") != _NOT_DELETED_BEFORE
        ):
            return missing
        message = str(error.get("message") or f"HTTP status {status}")
        if status == 401:
            hint = "check basic.auth.user.info or bearer.auth.token"
            raise AuthenticationFailed(f"the schema registry refused the login: {message}", hint=hint)
        if status == 403:
            raise PermissionDenied(f"the schema registry denies {method} {path}: {message}")
        if status in _REJECTED or status == _NOT_FOUND:
            raise RequestRejected(message, code=str(error.get("error_code", status)))
        if method == "GET":
            raise Unreachable(f"the schema registry failed: {message}")
        raise OutcomeUnknown(f"the schema registry failed: {message}")


def _take(steps: Sequence[Callable[[], None]]) -> None:
    """Take the steps of one operation; an error is partial if an earlier step was carried out."""
    for number, step in enumerate(steps):
        try:
            step()
        except ClusterError as error:
            error.is_partial = number > 0
            raise


def _parse_schema(latest: Mapping[str, Any]) -> RegisteredSchema:
    schema_type = latest.get("schemaType") or AVRO
    references = tuple(
        SchemaReference(each["name"], each["subject"], each["version"])
        for each in latest.get("references") or ()
    )
    try:
        text = compact(latest["schema"], schema_type)
    except ValueError:  # such as one that an earlier version of the registry accepted
        text = latest["schema"]
    return RegisteredSchema(text, schema_type, references)


def _order_by_references(operations: Sequence[Operation]) -> list[Operation]:
    """Return operations so that a subject comes before those that refer to it."""
    by_subject = {operation.ref.name: operation for operation in operations}
    ordered: dict[int, Operation] = {}

    def add(operation: Operation, users: frozenset[str]) -> None:
        if isinstance(operation, AlterSubject) and operation.schema is not None:
            for reference in operation.schema.references:
                needed = by_subject.get(reference.subject)
                if needed is not None and reference.subject not in users:
                    add(needed, users | {reference.subject})
        ordered.setdefault(id(operation), operation)

    for operation in operations:
        add(operation, frozenset({operation.ref.name}))
    return [*ordered.values()]


def _find_proxy(url: SplitResult) -> tuple[str, dict[str, str]]:
    """Return the proxy that the environment sets for an address, empty for none, and the headers for it.

    As for other requests, `http_proxy` is not respected: plain http is for this machine or a trusted network.
    """
    from urllib.request import getproxies, proxy_bypass

    proxy = getproxies().get("https") if url.scheme == "https" else None
    if not proxy or proxy_bypass(url.netloc.rpartition("@")[2]):
        return "", {}
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    login, _, host = parts.netloc.rpartition("@")
    encoded = b64encode(unquote(login).encode()).decode()
    headers = {"Proxy-Authorization": f"Basic {encoded}"} if login else {}
    return f"{parts.scheme}://{host}", headers


def open_registry(properties: Mapping[str, str]) -> SchemaRegistry:
    """Open the registry of client properties; connects on first use.

    Args:
        properties: The client properties of the cluster, with secrets.

    Raises:
        KafkaformError: The properties name no registry, or the library for it is not installed.
        UnusableCertificate: A certificate or key cannot be used.
    """
    url = properties.get("schema.registry.url")
    if url is None:
        raise UsageError(
            "no schema registry is configured for this cluster",
            hint="set schema.registry.url in its client properties",
        )
    try:
        import urllib3
    except ImportError:
        raise KafkaformError(
            "subjects need urllib3, which is not installed", hint="`pip install 'kafkaform[schema-registry]'`"
        ) from None
    headers = {"Accept": f"{_MEDIA_TYPE}, application/json"}
    if login := properties.get("basic.auth.user.info"):
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    elif token := properties.get("bearer.auth.token"):
        headers["Authorization"] = f"Bearer {token}"
    try:
        # Its properties are those of the brokers' TLS with a prefix.
        tls = create_tls_context(
            {
                name.removeprefix(_PREFIX): value
                for name, value in properties.items()
                if name.startswith(_PREFIX)
            }
        )
    except UnusableCertificate as error:
        raise UnusableCertificate(f"schema registry: {error.message}", hint=error.hint) from error
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    proxy, proxy_headers = _find_proxy(parts)
    manager = partial(urllib3.ProxyManager, proxy, proxy_headers=proxy_headers)
    try:
        # Connections are kept: with one a request, reading 1,000 subjects took twice as long (measured).
        pool = (manager if proxy else urllib3.PoolManager)(
            maxsize=CONNECTIONS, block=True, retries=False, ssl_context=tls
        )
    except urllib3.exceptions.HTTPError as error:
        raise UsageError(f"https_proxy: {error}", hint="give an address such as http://proxy:3128") from None

    def exchange(method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        target = url.rstrip("/") + path
        response = pool.request(
            method,
            target,
            body=content,
            headers=headers if content is None else {**headers, "Content-Type": _MEDIA_TYPE},
            redirect=False,
            preload_content=False,
            timeout=TIMEOUT_S,
        )
        raw = response.read(_MAX_RESPONSE_BYTES + 1)
        response.release_conn()
        return response.status, raw

    def send(method: str, path: str, body: object) -> RegistryResponse:
        content = None if body is None else json.dumps(body).encode()
        try:
            status, raw = call_within(TIMEOUT_S, partial(exchange, method, path, content))
        except (urllib3.exceptions.HTTPError, TimeoutError) as error:
            reason = " ".join(str(getattr(error, "reason", None) or error).split()) or "timed out"
            # A proxy that fails has not connected: what is sent is encrypted for the registry.
            no_connection = urllib3.exceptions.NewConnectionError, urllib3.exceptions.ProxyError
            is_unsent = method == "GET" or isinstance(error, no_connection)
            cause = Unreachable if is_unsent else OutcomeUnknown
            raise cause(f"the schema registry {address} did not answer: {reason}") from None
        if len(raw) > _MAX_RESPONSE_BYTES:
            raise MalformedResponse(f"the response of {address} is larger than 64 MiB")
        try:
            return RegistryResponse(status, json.loads(raw))
        except (ValueError, RecursionError):
            return RegistryResponse(status, None)

    return SchemaRegistry(send, address)
