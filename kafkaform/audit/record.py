"""The record's lines, format 1 (schemas/audit.schema.json): each one JSON object, in plain ASCII.

The same lines go into a file where the record is kept in one.

A change has an `intent`, written before anything is sent, and a `result`, written after. One that would not
fit into a Kafka message is written in parts, and a value of many pages is cut, with a note that it is.
What is written of throttles is in `kafkaform.apply.moves.throttle_journal`.
"""

from __future__ import annotations

import getpass
import json
import os
import secrets
import socket
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.core.apply_result import Result
from kafkaform.core.errors import AuditError
from kafkaform.core.model import (
    Delete,
    Update,
    risk_of,
)
from kafkaform.resources.values import action_of, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from kafkaform.core.apply_result import ResourceResult
    from kafkaform.core.model import (
        Consent,
        FieldChange,
        FieldValue,
        PlannedChange,
        ResourceRef,
    )
    from kafkaform.core.operations import Operation


FORMAT_VERSION = 1
LONGEST_LINE = 900_000
"""The most bytes of a line: brokers take messages of 1 MiB unless they are told otherwise."""

RESULTS = {
    Result.APPLIED: "applied",
    Result.ALREADY: "already",
    Result.FAILED: "failed",
    Result.MOVED: "moved",
    Result.NOT_TRIED: "not_tried",
}
"""How a change can end that was about to be carried out."""

_Json: TypeAlias = dict[str, Any]

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's: no letter that is taken for a digit, and in the order of ASCII."""
_TIME_DIGITS = 7  # of seconds since 1970: enough for a thousand years
_RANDOM_DIGITS = 4
_LONGEST_VALUE = 100_000  # bytes of JSON
_KEPT = 10_000  # characters of a value that is cut
_PROSE = 2_000
_WORD = 250
_LONGEST_CHARACTER = 12  # of JSON in ASCII: two escapes
_ENCODER = json.JSONEncoder(separators=(",", ":"))  # json.dumps would make one for each line


def new_run(now: datetime) -> str:
    """An id for one apply: 11 digits and small letters, which sort by the second."""
    seconds, digits = int(now.timestamp()), ""
    for _ in range(_TIME_DIGITS):
        seconds, digit = divmod(seconds, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits + "".join(secrets.choice(_DIGITS) for _ in range(_RANDOM_DIGITS))


def timestamp(now: datetime) -> str:
    """A time as records have it: RFC 3339 in UTC, to the millisecond."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def about(
    author: Author, *, commit: str | None, plan: str, tool: str, cluster: str, environment: str | None
) -> _Json:
    """What all intents of one apply have in common."""
    return {
        "who": author.who[:_WORD],
        "host": author.host[:_WORD],
        "ci": None if author.ci is None else {"system": author.ci, "url": author.url and author.url[:_PROSE]},
        "commit": commit,
        "plan": plan,
        "tool_version": tool,
        "cluster": cluster,
        "environment": environment,
    }


def intent_lines(
    change_id: str, at: str, common: _Json, planned: PlannedChange, consents: Sequence[Consent]
) -> Iterator[str]:
    """The lines that say what is about to be done to one resource."""
    change = planned.change
    document = {
        **_head("intent", change_id, at),
        **common,
        "kind": change.ref.kind,
        "name": change.ref.name,
        "uid": change.uid if isinstance(change, Update | Delete) else None,
        "action": action_of(change),
        "risk": risk_of(change).label,
        "fields": [_field(f) for f in fields_of(change) if f.deferred is None],
        "consent": [{"hazard": c.hazard[:_WORD], "reason": c.reason[:_PROSE]} for c in consents],
    }
    return _lines(document, "fields")


def result_lines(change_id: str, at: str, ended: ResourceResult) -> Iterator[str]:
    """The lines that say what became of one change."""
    document = {
        **_head("result", change_id, at),
        "kind": ended.planned.ref.kind,
        "name": ended.planned.ref.name,
        "result": RESULTS[ended.result],
        "message": ended.message[:_PROSE] or None,
        "done": _paths(ended.done, ended),
    }
    if ended.unsure:
        document["unsure"] = _paths(ended.unsure, ended)
    return _lines(document, "done", "unsure")


def settled_lines(
    change_id: str, ref: ResourceRef, done: Sequence[str], at: str, by: str, *, concluded: bool
) -> Iterator[str]:
    """The lines that say of a change that was in doubt that it was found to be carried out.

    Args:
        change_id: The id of the change.
        ref: The resource that it changed.
        done: The paths of the fields that were found so.
        at: When.
        by: The id of the apply that found it.
        concluded: Whether the apply that made the change wrote a result of it.
    """
    why = "no answer had come" if concluded else "this one ended before it could write its result"
    document = {
        **_head("result", change_id, at),
        "kind": ref.kind,
        "name": ref.name,
        "result": RESULTS[Result.APPLIED],
        "message": f"found done by apply {by}: {why}",
        "done": list(done),
    }
    return _lines(document, "done")


def _head(record: str, change_id: str, at: str) -> _Json:
    run, _, _ = change_id.partition(".")
    return {"format_version": FORMAT_VERSION, "record": record, "id": change_id, "run": run, "at": at}


def _field(field: FieldChange) -> _Json:
    values = {"before": field.before, "after": field.after}
    cut = [side for side, value in values.items() if _is_long(value)]
    kept = {side: str(value)[:_KEPT] if side in cut else value for side, value in values.items()}
    return {"path": field.path, **kept, **({"cut": cut} if cut else {})}


def _is_long(value: FieldValue) -> bool:
    if not isinstance(value, str) or len(value) * _LONGEST_CHARACTER < _LONGEST_VALUE:
        return False
    return len(dumped(value)) > _LONGEST_VALUE


def _paths(operations: Iterable[Operation], ended: ResourceResult) -> list[str]:
    """The fields that operations set; one that several have a part in is set by the last of them."""
    changed = [field.path for field in fields_of(ended.planned.change)]
    last = {path: o for o in (*ended.done, *ended.not_done) for path in o.paths(changed)}
    return [path for o in operations for path in o.paths(changed) if last[path] is o]


def _lines(document: _Json, *keys: str) -> Iterator[str]:
    """A document as one line; where it is too long as several, each with some of the items below the keys."""
    line = dumped(document)
    if len(line) <= LONGEST_LINE:
        yield line
        return
    present = [key for key in keys if key in document]
    parts: list[dict[str, list[Any]]] = [{key: [] for key in present}]
    room = LONGEST_LINE - len(dumped({**document, **parts[0], "part": 10**6, "parts": 10**6}))
    used = 0
    for key in present:
        for item in document[key]:
            size = len(dumped(item)) + 1
            if used and used + size > room:
                parts.append({key: [] for key in present})
                used = 0
            parts[-1][key].append(item)
            used += size
    for number, part in enumerate(parts, 1):
        yield dumped({**document, **part, "part": number, "parts": len(parts)})


def dumped(value: object) -> str:
    """JSON in ASCII without control characters, so that a line is safe to show as it is."""
    return _ENCODER.encode(value).replace("\x7f", "\\u007f")


@dataclass(frozen=True, slots=True)
class Author:
    """Somebody who applies.

    Attributes:
        who: Whoever set the CI job off, or the user of this machine.
        host: This machine.
        ci: `github` or `gitlab`; None outside of both.
        url: The page of the CI job; None if there is none.
    """

    who: str
    host: str
    ci: str | None = None
    url: str | None = None


def author_here(environ: Mapping[str, str]) -> Author:
    """Who is at work, as far as the system and the CI job's environment say."""
    host = socket.gethostname()
    if environ.get("GITHUB_ACTIONS") == "true":
        who = environ.get("GITHUB_TRIGGERING_ACTOR") or environ.get("GITHUB_ACTOR")
        page = [environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
        url = "{}/{}/actions/runs/{}".format(*page) if all(page) else None
        return Author(who or _user(), host, "github", url)
    if environ.get("GITLAB_CI") == "true":
        url = environ.get("CI_JOB_URL") or environ.get("CI_PIPELINE_URL")
        return Author(environ.get("GITLAB_USER_LOGIN") or _user(), host, "gitlab", url)
    return Author(_user(), host)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return "unknown"


def append_to_file(file: Path, lines: Sequence[str]) -> None:
    """Add lines, and wait until they are on the disk; a new file is for its owner alone.

    Raises:
        AuditError: They cannot be written.
    """
    text = "".join(f"{line}\n" for line in lines).encode()
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if _is_torn(descriptor):
                text = b"\n" + text
            while text:
                text = text[os.write(descriptor, text) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise AuditError(
            f"the record in {file} cannot be written: {error.strerror}",
            hint="fix that, or use another file: --audit-file, or audit.file in kafkaform.yaml",
        ) from error


def read_file(file: Path) -> list[str]:
    """The lines of a file; none if it does not exist.

    Raises:
        AuditError: It cannot be read.
    """
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AuditError(f"the record in {file} cannot be read: {error.strerror}") from error
    return [line.decode("utf-8", "replace") for line in raw.split(b"\n") if line.strip()]


def _is_torn(descriptor: int) -> bool:
    """Whether the last line has no end, as after a crash in the midst of writing."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
