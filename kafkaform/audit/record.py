"""The lines of the audit record, format 1 (schemas/audit.schema.json): one JSON object each, in plain ASCII.

They are the same in the audit topic and in a file.

A change has an `intent`, written before anything is sent, and a `result`, written after. One that would not
fit into a Kafka message is split into parts. Of a long value, a part or a digest is kept, and it is marked as
cut. The lines about throttles are written by `kafkaform.apply.moves.throttle_journal`.
"""

from __future__ import annotations

import errno
import getpass
import json
import os
import secrets
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.core.apply_result import ResourceResult, Result
from kafkaform.core.errors import AuditError
from kafkaform.core.files import read_file, require_regular
from kafkaform.core.model import Delete, Recreate, Update, risk_of
from kafkaform.core.values import Value
from kafkaform.resources import GROUP, KINDS, is_group, is_topic
from kafkaform.resources.values import action_of, fields_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkaform.core.model import Change, FieldChange, FieldValue, ResourceRef
    from kafkaform.core.operations import Operation
    from kafkaform.core.plans import Consent, PlannedChange, PlannedSuccession

FORMAT_VERSION = 1
# Brokers accept batches of 1,048,588 bytes by default, and librdkafka sends up to 1,000,000; both limits are
# named message.max.bytes.
MAX_LINE_BYTES = 900_000
"""The most bytes of a line."""

RESULTS = {
    Result.APPLIED: "applied",
    Result.ALREADY: "already",
    Result.FAILED: "failed",
    Result.MOVED: "moved",
    Result.NOT_TRIED: "not_tried",
}
"""The results that a line can have, by the result of an apply."""

_Json: TypeAlias = dict[str, Any]

# Crockford's base 32: no letter looks like a digit, and the digits are in the order of ASCII, so that ids
# sort by time.
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS = 7  # of seconds since 1970, which suffice for a thousand years
_RANDOM_DIGITS = 4
_MAX_VALUE_BYTES = 100_000  # bytes of JSON
_MAX_FILE_BYTES = 1 << 30  # bytes; more would not fit into the memory of a CI job
_MAX_REASON_LENGTH = 2_000
_MAX_DETAIL_LENGTH = 250
_MAX_CHARACTER_BYTES = 12  # in JSON: a surrogate pair is two \uXXXX escapes
_ENCODER = json.JSONEncoder(separators=(",", ":"))  # json.dumps would create one for each line


def create_run_id(now: datetime) -> str:
    """Create the id of an apply: 11 digits and lowercase letters that sort by time, to the second."""
    seconds, digits = int(now.timestamp()), ""
    for _ in range(_TIME_DIGITS):
        seconds, digit = divmod(seconds, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits + "".join(secrets.choice(_DIGITS) for _ in range(_RANDOM_DIGITS))


def format_timestamp(now: datetime) -> str:
    """Format a time as RFC 3339 in UTC, to the millisecond."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def describe_apply(
    author: Author, *, commit: str | None, plan: str, tool: str, cluster: str, environment: str | None
) -> _Json:
    """Return the part that all intents of one apply share."""
    return {
        "who": author.who[:_MAX_DETAIL_LENGTH],
        "host": author.host[:_MAX_DETAIL_LENGTH],
        "ci": None
        if author.ci is None
        else {"system": author.ci, "url": author.url and author.url[:_MAX_REASON_LENGTH]},
        "commit": commit,
        "plan": plan,
        "tool_version": tool,
        "cluster": cluster,
        "environment": environment,
    }


def render_intent(
    change_id: str,
    at: str,
    common: _Json,
    planned: PlannedChange,
    consents: Sequence[Consent],
    successions: Mapping[str, PlannedSuccession],
) -> Iterator[str]:
    """Render the intended change of one resource; `successions` are those of the plan."""
    change = planned.change
    fields = [field for field in fields_of(change) if field.deferred is None]
    document = {
        **_build_head("intent", change_id, at),
        **common,
        "kind": change.ref.kind,
        "name": change.ref.name,
        "uid": change.uid if isinstance(change, Update | Delete | Recreate) else None,
        "action": action_of(change),
        "risk": risk_of(change).label,
        "fields": [_encode_field(change.ref, field) for field in fields],
        "consent": [
            {"hazard": c.hazard[:_MAX_DETAIL_LENGTH], "reason": c.reason[:_MAX_REASON_LENGTH]}
            for c in consents
        ],
    }
    if steps := _find_steps(change, {field.path for field in fields}, successions):
        document["successions"] = steps
    return _render_lines(document, "fields")


def _find_steps(
    change: Change, paths: Collection[str], successions: Mapping[str, PlannedSuccession]
) -> list[_Json]:
    """Return the steps of successions that a change takes."""
    if is_group(change.ref):
        step = "first offsets"
        successors = {topic for path, topic in GROUP.first_offsets(change).items() if path in paths}
    elif is_topic(change.ref) and isinstance(change, Delete | Recreate):
        step = "predecessor deleted" if isinstance(change, Delete) else "predecessor recreated"
        successors = {name for name, each in successions.items() if each.predecessor == change.ref.name}
    else:
        return []
    known = sorted(successors & successions.keys())
    return [{"from": successions[name].predecessor, "to": name, "step": step} for name in known]


def render_result(change_id: str, at: str, ended: ResourceResult) -> Iterator[str]:
    """Render the result of one change."""
    document = {
        **_build_head("result", change_id, at),
        "kind": ended.planned.ref.kind,
        "name": ended.planned.ref.name,
        "result": RESULTS[ended.result],
        "message": ended.message[:_MAX_REASON_LENGTH] or None,
        "done": _list_paths(ended.done, ended),
    }
    if isinstance(ended.planned.change, Recreate):
        document["steps"] = [operation.step for operation in ended.done]
    if ended.live:
        document["live"] = dict(ended.live)
    if ended.in_doubt:
        document["in_doubt"] = _list_paths(ended.in_doubt, ended)
    return _render_lines(document, "done", "in_doubt")


def render_confirmation(
    change_id: str, ref: ResourceRef, done: Sequence[str], at: str, by: str, *, concluded: bool
) -> Iterator[str]:
    """Render the result of a change in doubt that a later apply found on the cluster.

    Args:
        ref: The resource that it changed.
        done: The paths of the fields that were found changed.
        at: When they were found (RFC 3339 in UTC).
        by: The id of the apply that found them.
        concluded: Whether the apply that made the change wrote a result.
    """
    reason = (
        "it could not be verified then"
        if concluded
        else "its own apply ended before it could write the result"
    )
    document = {
        **_build_head("result", change_id, at),
        "kind": ref.kind,
        "name": ref.name,
        "result": RESULTS[Result.APPLIED],
        "message": f"apply {by} found the change on the cluster: {reason}",
        "done": list(done),
    }
    return _render_lines(document, "done")


def _build_head(record: str, change_id: str, at: str) -> _Json:
    run, _, _ = change_id.partition(".")
    return {"format_version": FORMAT_VERSION, "record": record, "id": change_id, "run": run, "at": at}


def _encode_field(ref: ResourceRef, field: FieldChange) -> _Json:
    values = {"before": field.before, "after": field.after}
    cut = [side for side, value in values.items() if _is_long(value)]
    kind = KINDS[ref.kind].field(field.path)
    kept = {side: kind.shorten(str(value)) if side in cut else value for side, value in values.items()}
    return {"path": field.path, **kept, **({"cut": cut} if cut else {})}


def _is_long(value: FieldValue) -> bool:
    # Only values that could be too long are encoded to find out.
    if not isinstance(value, str) or len(value) * _MAX_CHARACTER_BYTES < _MAX_VALUE_BYTES:
        return False
    return len(encode_json(value)) > _MAX_VALUE_BYTES


def _list_paths(operations: Iterable[Operation], ended: ResourceResult) -> list[str]:
    """Return the fields that operations set; a field that several set counts for the last of them."""
    # The placement of added partitions is set by their creation and by a reassignment: until both are done,
    # the field is not.
    changed = [field.path for field in fields_of(ended.planned.change)]
    last = {path: o for o in (*ended.done, *ended.not_done) for path in o.paths(changed)}
    return [path for o in operations for path in o.paths(changed) if last[path] is o]


def _render_lines(document: _Json, *keys: str) -> Iterator[str]:
    """Render a document as one line, or as several that share out the items of `keys` if one is too long."""
    line = encode_json(document)
    if len(line) <= MAX_LINE_BYTES:
        yield line
        return
    present = [key for key in keys if key in document]
    parts: list[dict[str, list[Any]]] = [{key: [] for key in present}]
    # With the greatest numbers of parts that may be needed, so that no line grows beyond the limit when the
    # real ones are filled in.
    room = MAX_LINE_BYTES - len(encode_json({**document, **parts[0], "part": 10**6, "parts": 10**6}))
    used = 0
    for key in present:
        for item in document[key]:
            size = len(encode_json(item)) + 1
            if used and used + size > room:
                parts.append({key: [] for key in present})
                used = 0
            parts[-1][key].append(item)
            used += size
    for number, part in enumerate(parts, 1):
        yield encode_json({**document, **part, "part": number, "parts": len(parts)})


def encode_json(value: object) -> str:
    """Encode JSON in ASCII without control characters, so that a line is safe to print as it is."""
    text = _ENCODER.encode(value)
    # A variable that is not UTF-8 has halves of surrogate pairs in Python. No reader of the line could encode
    # them again, so each becomes a question mark.
    if "\\ud" in text:
        raw = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        text = _ENCODER.encode(json.loads(raw))
    # json escapes all control characters but DEL.
    return text.replace("\x7f", "\\u007f")


class Author(Value):
    """The user that applies.

    Attributes:
        who: The user that triggered the CI job, or is logged in on this machine.
        ci: `github`, `gitlab` or `jenkins`, or `agent`; None outside of them.
        url: The page of the CI job, or the branch that an agent follows; None if there is none.
    """

    who: str
    host: str
    ci: str | None = None
    url: str | None = None


def detect_author(environ: Mapping[str, str]) -> Author:
    """Return the user that runs this process, from the CI job's environment or the operating system."""
    host = socket.gethostname()
    if environ.get("GITHUB_ACTIONS") == "true":
        who = environ.get("GITHUB_TRIGGERING_ACTOR") or environ.get("GITHUB_ACTOR")
        page = [environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
        url = "{}/{}/actions/runs/{}".format(*page) if all(page) else None
        return Author(who or _detect_user(), host, "github", url)
    if environ.get("GITLAB_CI") == "true":
        url = environ.get("CI_JOB_URL") or environ.get("CI_PIPELINE_URL")
        return Author(environ.get("GITLAB_USER_LOGIN") or _detect_user(), host, "gitlab", url)
    if environ.get("JENKINS_URL"):
        who = environ.get("BUILD_USER_ID") or _detect_user()
        return Author(who, host, "jenkins", environ.get("BUILD_URL"))
    return Author(_detect_user(), host)


def _detect_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user id without a name
        return "unknown"


def append_to_file(file: Path, lines: Sequence[str]) -> None:
    """Append lines and sync them to disk; a new file is readable by its owner only.

    Raises:
        AuditError: The file cannot be written.
    """
    text = "".join(f"{line}\n" for line in lines).encode()
    try:
        # One write with O_APPEND goes to the end of the file, also while another apply writes to it. O_RDWR,
        # as the last byte is read.
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            require_regular(descriptor, file)
            # A crash may have left a partial line: without a line break, this line would be lost with it.
            if _is_torn(descriptor):
                text = b"\n" + text
            while text:
                text = text[os.write(descriptor, text) :]
            # The intent has to survive a crash of the machine: it is the only evidence of what an apply was
            # about to do.
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise AuditError(
            f"the record in {file} cannot be written: {error.strerror}",
            hint="fix the cause, or use another file: audit.file in kafkaform.yaml",
        ) from error


def read_lines(file: Path) -> list[str]:
    """Read the lines of a file; none if it does not exist.

    Raises:
        AuditError: The file cannot be read.
    """
    try:
        raw = read_file(file, _MAX_FILE_BYTES, pipes=False)
    except FileNotFoundError:
        return []
    except OSError as error:
        hint = "move it away; the next apply starts a new one" if error.errno == errno.EFBIG else None
        raise AuditError(f"the record in {file} cannot be read: {error.strerror}", hint=hint) from error
    # Split at line feeds only: splitlines() would also split at characters within a line. Invalid UTF-8 is
    # one damaged line, not an unreadable file.
    return [line.decode("utf-8", "replace") for line in raw.split(b"\n") if line.strip()]


def _is_torn(descriptor: int) -> bool:
    """Return whether the last line has no newline, as after a crash during a write."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
