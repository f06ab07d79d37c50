"""The risk of a change of a User.

A password that is replaced is destructive, not disruptive: Kafka does not return the old one, so it cannot be
restored, and clients that have it are refused at their next login.
"""

from __future__ import annotations

from kafkaform.core.model import SAFE, Facts, FieldValue, Observed, Risk, RiskAssessment
from kafkaform.core.values import Value
from kafkaform.resources.user.credential import PREFIX, LivePassword, parse_credential

REMOVAL, PASSWORD, OWN, MALFORMED = (
    "credential-removal",
    "password-change",
    "own-access",
    "unknown-credential",
)
HAZARDS = frozenset({REMOVAL, PASSWORD, OWN, MALFORMED})
"""The names by which a change of a User can be consented to or forbidden."""


class OwnLogin(Value):
    """The SCRAM login of the account that plans and applies; empty if it has none."""

    user: str = ""
    mechanism: str = ""


def judge(name: str, path: str, before: FieldValue, after: FieldValue, facts: Facts) -> RiskAssessment:
    """Assess the change of one credential."""
    if before is None:
        return SAFE
    mechanism = path.removeprefix(PREFIX)
    if after is None:
        text = f"{name} can no longer log in by {mechanism}"
        remedy = "declare it in spec.scram if a client uses it"
        assessment = RiskAssessment(Risk.DESTRUCTIVE, REMOVAL, f"{text}; clients that do are refused", remedy)
    else:
        live, declared = parse_credential(before), parse_credential(after)
        if live is None or declared is None:
            return RiskAssessment(Risk.IMPOSSIBLE, MALFORMED, "it is not a credential", "make a new plan")
        if live.password == declared.password:
            return RiskAssessment(reason="a login shows that the password stays the same")
        why, remedy = (
            f"a login with {declared.password} was refused",
            "rotate with a second user or mechanism",
        )
        if live.password is not LivePassword.CHANGED:
            why = f"it is unknown whether {declared.password} is the present password"
            if live.iterations == declared.iterations:
                why += ", which an apply that can log in with it leaves as it is"
            remedy = "plan where the password can be read, and a SASL listener has the mechanism"
        assessment = RiskAssessment(
            Risk.DESTRUCTIVE,
            PASSWORD,
            f"{why}; clients with another password are refused at their next login",
            remedy,
        )
    if facts.get(OwnLogin) == OwnLogin(name, mechanism):
        return RiskAssessment(
            Risk.IMPOSSIBLE,
            OWN,
            f"{name} is the account that applies, and could no longer log in by {mechanism}",
            "apply it with another account",
        )
    return assessment


def judge_delete(observed: Observed, facts: Facts) -> RiskAssessment:
    """Assess the removal of all credentials of a user: the highest risk, with its reasons."""
    judged = [judge(observed.ref.name, path, value, None, facts) for path, value in observed.state.items()]
    worst = max(judged, key=lambda assessment: assessment.risk)
    reasons = [assessment.reason for assessment in judged if assessment.risk is worst.risk]
    return RiskAssessment(worst.risk, worst.hazard, "; ".join(reasons), worst.remedy)
