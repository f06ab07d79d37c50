"""Saved plans: `Plan` to and from JSON, format 1 (schemas/plan.schema.json).

The same plan and header always give the same bytes, and reading them gives an equal plan.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from kafkaform.config.manifests.files import NO_CONFIG_FILE
from kafkaform.core.errors import PlanFileError
from kafkaform.core.model import SAFE, Create, Delete, Recreate, Update, risk_of
from kafkaform.core.plans import AffectedConsumer, ChangeOrigin, Plan, PlannedChange
from kafkaform.core.printable import clipped, is_plain, printable
from kafkaform.core.strict_json import encode_canonical
from kafkaform.core.values import asdict
from kafkaform.plan.gate import resolve_consents
from kafkaform.plan.plan_header import PlanHeader, is_compatible
from kafkaform.plan.plan_reader import (
    ALSO,
    COST,
    DATA_UNREAD,
    FIGURE,
    KEYED,
    SUBSET,
    SUCCESSIONS,
    parse_plan,
    read_plan,
)
from kafkaform.plan.plan_signature import (
    ALGORITHM,
    MEMBER,
    SIGNED_FOR,
    Purpose,
    Signature,
    SignedFor,
    encode_signed_content,
    signature_member,
)
from kafkaform.plan.summary import summarise
from kafkaform.resources.values import action_of, fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from kafkaform.core.model import Diagnostic, FieldChange, Location, ResourceRef, RiskAssessment

_ESCAPED = re.compile(r"[^\n -~]")

FORMAT_VERSION = 1
_CONTENT = ("format_version", "environment", "undeclared", "unmanaged", "unknown", "consent")
_Json: TypeAlias = dict[str, Any]


def format_json(value: object) -> str:
    """Format a value as `json.dumps(value, indent=2, ensure_ascii=False)` does, in a fraction of the time.

    Args:
        value: The value; keys of mappings are strings, and a plan has no fractions.

    Returns:
        The text with a newline at its end.
    """
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    except UnicodeEncodeError:
        # Python has unpaired surrogates in the name of a file that is not UTF-8.
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def plan_to_json(plan: Plan, header: PlanHeader) -> str:
    """Return a plan as JSON text with a newline at its end.

    Characters that a terminal would act on are written as JSON escapes, so the text is safe to show.
    """
    document = _build_document(plan, header)
    if header.signature is not None:
        signature = header.signature
        if header.signed_for is not None:
            document[SIGNED_FOR] = asdict(header.signed_for)
        document[MEMBER] = {"algorithm": ALGORITHM, "key": signature.key, "value": signature.value}
    return _encode(document)


def compute_plan_digest(plan: Plan, header: PlanHeader) -> str:
    """Return the digest of the plan's document."""
    digest: str = _build_document(plan, header)["digest"]
    return digest


def _build_document(plan: Plan, header: PlanHeader) -> _Json:
    document: _Json = {
        "format_version": FORMAT_VERSION,
        "tool_version": header.tool_version,
        "commit": header.commit,
        "cluster": cluster_member(plan.cluster_id, header),
        "environment": header.environment,
        **configuration_member(header),
        "created_at": header.created_at,
        "digest": "",
        "consent": [asdict(c) for c in plan.consents],
        "summary": summarise(plan).to_json(),
        "changes": [_convert_change(c) for c in plan.changes],
        "undeclared": [{**_convert_ref(u.ref), "path": u.path, "value": u.value} for u in plan.undeclared],
        "unmanaged": [_convert_ref(r) for r in plan.unmanaged],
        "unknown": [_convert_ref(r) for r in plan.unknown],
        "diagnostics": [_convert_diagnostic(d) for d in plan.diagnostics],
        **({"readers": [_convert_consumer(r) for r in plan.readers]} if plan.readers else {}),
        "broker_validated": plan.broker_validated,
        **({"unvalidated": [_convert_ref(r) for r in plan.unvalidated]} if plan.unvalidated else {}),
        **({SUBSET: True} if plan.subset else {}),
        **({COST: asdict(plan.cost)} if plan.cost is not None else {}),
        **({SUCCESSIONS: _convert_successions(plan)} if plan.successions else {}),
    }
    document["digest"] = digest_of(document)
    return document


def cluster_member(cluster_id: str, header: PlanHeader) -> _Json:
    """Build the member `cluster` of a document."""
    servers = {} if header.servers is None else {"bootstrap_servers": header.servers}
    return {"id": cluster_id, "name": header.cluster_name, **servers}


def configuration_member(header: PlanHeader) -> _Json:
    """Build the member `configuration` of a document; empty if the header has none."""
    if header.configuration is None:
        return {}
    return {"configuration": None if header.configuration == NO_CONFIG_FILE else header.configuration}


def sign(text: str, key: Ed25519PrivateKey, signed_for: SignedFor) -> str:
    """Return the JSON text of a plan with a purpose and a signature, which replace any it had."""
    document = {**json.loads(text), SIGNED_FOR: asdict(signed_for)}
    return _encode({**document, MEMBER: signature_member(document, key)})


def plan_from_json(text: str, file: str) -> tuple[Plan, PlanHeader]:
    """Read a saved plan.

    Args:
        text: The content of the file.
        file: Its name, for messages.

    Raises:
        PlanFileError: It is not JSON, not a plan, of a newer format, or damaged.
    """
    document = parse_plan(text, file, newest=FORMAT_VERSION)
    try:
        plan = read_plan(document, file)
    except PlanFileError as error:
        version = document.get("tool_version")
        if isinstance(version, str) and not is_compatible(version):
            made = f"the plan was made by kafkaform {clipped(version, 40)}; read it with that version"
            raise PlanFileError(error.message, hint=made) from error
        raise
    signature, signed_for = read_signature(document)
    # The digest is of the document, and detects accidents only: anybody who edits a plan can compute it
    # again. A signature proves the origin.
    if document["digest"] != digest_of(document) or document["summary"] != summarise(plan).to_json():
        raise PlanFileError(
            f"{printable(file)}: the plan is damaged or was edited by hand: its digest does not match",
            hint="create it again with `kafkaform plan --out FILE`; change the manifests, not the plan",
        )
    return resolve_consents(plan), PlanHeader(
        tool_version=document["tool_version"],
        commit=document["commit"],
        cluster_name=document["cluster"]["name"],
        environment=document["environment"],
        created_at=document["created_at"],
        signature=signature,
        signed_for=signed_for,
        configuration=(document["configuration"] or NO_CONFIG_FILE) if "configuration" in document else None,
        servers=document["cluster"].get("bootstrap_servers"),
        digest=document["digest"],
    )


def read_signature(document: _Json) -> tuple[Signature | None, SignedFor | None]:
    """Return the signature of a document, not verified, and its purpose."""
    signature, signed_for = document.get(MEMBER), document.get(SIGNED_FOR)
    return (
        Signature(signature["key"], signature["value"], encode_signed_content(document))
        if signature
        else None,
        SignedFor(Purpose(signed_for["purpose"]), signed_for["ref"]) if signed_for else None,
    )


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the digest of a plan document, without times, locations, origins, teams, layers and version."""
    content = {key: document[key] for key in (*_CONTENT, SUBSET) if key in document}
    content["cluster"] = document["cluster"]["id"]
    content["changes"] = [
        {k: v for k, v in c.items() if k not in {"source", "origin", "team", "layer"}}
        for c in document["changes"]
    ]
    return f"sha256:{hashlib.sha256(encode_canonical(content)).hexdigest()}"


def _encode(document: _Json) -> str:
    text = format_json(document)
    # A pattern visits each character in Python; these two checks run in C.
    plain = text.isascii() and "\x7f" not in text
    return text if plain else _ESCAPED.sub(_escape, text)


def _convert_successions(plan: Plan) -> list[_Json]:
    return [{"successor": name, **asdict(each)} for name, each in plan.successions.items()]


def _convert_change(planned: PlannedChange) -> _Json:
    change = planned.change
    risk = risk_of(change).label
    match change:
        case Create(assessment=assessment):
            uid, own = None, assessment
        case Update(uid=uid):
            own = SAFE
        case Delete(uid=uid, assessment=assessment) | Recreate(uid=uid, assessment=assessment):
            own = assessment
    # The fields of a create, a delete or a recreate repeat its risk: a reader of fields alone must not take a
    # destructive delete for safe.
    whole = None if isinstance(change, Update) else risk
    origin = {} if planned.origin is None else {"origin": _convert_origin(planned)}
    keyed = {} if planned.keyed is None else {KEYED: planned.keyed}
    return {
        **_convert_ref(change.ref),
        "id": uid,
        "action": action_of(change),
        "status": planned.status.value,
        "risk": risk,
        "hazard": own.hazard or None,
        "risk_reason": own.reason or None,
        "risk_remedy": own.remedy,
        **_convert_facts(own),
        "reason": planned.reason,
        "remedy": planned.remedy,
        "source": _convert_location(planned.location),
        **origin,
        **keyed,
        **({"team": planned.team} if planned.team else {}),
        **({"layer": planned.layer} if planned.layer else {}),
        "fields": [_convert_field(f, whole or f.assessment.risk.label) for f in fields_of(change)],
    }


def _convert_origin(planned: PlannedChange) -> _Json:
    return {"from": planned.origin, "earlier": list(planned.earlier)}


def _convert_field(field: FieldChange, risk: str) -> _Json:
    return {
        "path": field.path,
        "before": field.before,
        "after": field.after,
        "effective_before": field.effective_before,
        "effective_after": field.effective_after,
        "risk": risk,
        "hazard": field.assessment.hazard or None,
        "reason": field.assessment.reason or None,
        "remedy": field.assessment.remedy,
        **_convert_facts(field.assessment),
        "deferred": field.deferred,
    }


def _convert_facts(assessment: RiskAssessment) -> _Json:
    unread = {DATA_UNREAD: True} if assessment.data_unread else {}
    also = {ALSO: list(assessment.also)} if assessment.also else {}
    return {**unread, **({FIGURE: assessment.figure} if assessment.figure else {}), **also}


def _convert_diagnostic(diagnostic: Diagnostic) -> _Json:
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "source": _convert_location(diagnostic.location),
        "suggestion": diagnostic.suggestion,
        "waived": diagnostic.waived,
        **({} if diagnostic.ref is None else {"about": _convert_ref(diagnostic.ref)}),
        **({"origin": ChangeOrigin.BRANCH.value} if diagnostic.by_branch else {}),
    }


def _convert_consumer(reader: AffectedConsumer) -> _Json:
    return {
        **_convert_ref(reader.ref),
        "topics": list(reader.topics),
        **({"team": reader.team} if reader.team else {}),
    }


def _convert_ref(ref: ResourceRef) -> _Json:
    return {"kind": ref.kind, "name": ref.name}


def _convert_location(location: Location | None) -> _Json | None:
    if location is None:
        return None
    column = {} if location.column == 1 else {"column": location.column}
    return {"file": location.file, "line": location.line, **column}


def _escape(match: re.Match[str]) -> str:
    # The pattern leaves line breaks alone: in strings they are escaped already, and elsewhere they are
    # layout.
    char = match.group()
    if is_plain(char):
        return char
    # Of the name of a file that is not UTF-8: as text, as the reader refuses halves of surrogate pairs.
    if "\ud800" <= char <= "\udfff":
        return f"\\\\u{ord(char):04x}"
    utf16 = char.encode("utf-16-be").hex()
    return "".join(f"\\u{utf16[i : i + 4]}" for i in range(0, len(utf16), 4))
