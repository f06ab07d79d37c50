"""Codes of what a plan says about its own reading: not rules over manifests, but explained like them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkaform.core.model import Diagnostic, Severity
from kafkaform.core.wording import command, nearest, quoted
from kafkaform.rules.catalogue import Rule, Scene

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Iterable,
        Iterator,
        Mapping,
    )

    from kafkaform.core.model import ResourceRef
    from kafkaform.rules.catalogue import Stage


@dataclass(frozen=True, slots=True)
class Note:
    """A code that the planner or the reading of a cluster emits."""

    code: str
    severity: Severity
    explanation: str

    @property
    def summary(self) -> str:
        """One line: what is so."""
        return self.explanation.splitlines()[0]


NOTES: dict[str, Note] = {
    note.code: note
    for note in (
        Note(
            "KF408",
            Severity.WARNING,
            "An offset that was asked for lies outside of the log.\n\n"
            "Brokers take any number as a committed offset, and a consumer that finds nothing there starts\n"
            "at its auto.offset.reset. A reset stays within the first and last offset of the log.",
        ),
        Note(
            "KF410",
            Severity.ERROR,
            "A declared resource is not visible to this account.\n\n"
            "A broker hides what an account may not describe, so it may or may not exist. It is neither\n"
            "created nor changed, and the plan exits 1. Grant Describe and DescribeConfigs on it.",
        ),
        Note(
            "KF411",
            Severity.WARNING,
            "Brokers have different defaults.\n\n"
            "A topic without an own value then has another one on each broker, and describes differently\n"
            "from one request to the next. Give all brokers one default, or declare the value on topics.",
        ),
        Note(
            "KF412",
            Severity.INFO,
            "This account may not read the brokers' configs.\n\n"
            "What comes into force when a config is taken away is then unknown, and is judged as if it lost\n"
            "data. Grant DescribeConfigs on the cluster.",
        ),
        Note(
            "KF413",
            Severity.INFO,
            "Running reassignments could not be read.\n\n"
            "A replication factor that differs may be one that is being changed right now. Grant Describe\n"
            "on the cluster.",
        ),
        Note(
            "KF414",
            Severity.INFO,
            "A part of the plan was not validated by the brokers.\n\n"
            "An account that may not alter a resource may not have a change of it checked either, and a\n"
            "busy controller may not answer in time. The plan stands, but an apply may meet objections that\n"
            "could not be asked for.",
        ),
        Note(
            "KF415",
            Severity.WARNING,
            "A broker did not tell its configs.\n\n"
            "The plan goes by the defaults of the brokers that did; the silent one may have others. It may\n"
            "be down, or out of reach from here: an apply may then not get through either.",
        ),
        Note(
            "KF416",
            Severity.INFO,
            "The sizes of topics could not be read.\n\n"
            "Risky changes are then shown without how much data they concern. Grant Describe on the cluster.",
        ),
        Note(
            "KF417",
            Severity.WARNING,
            "A consent in a manifest covers nothing in the plan.\n\n"
            "A consent is for the value or the topic that it names (`retention-cut from 7d`,\n"
            "`delete of TOPIC-ID`) and is spent once that is gone: take the line out of the annotation when\n"
            "it is applied on every cluster. One that does not say what it is for covers only hazards that\n"
            "have no value before; else the finding says what to write.",
        ),
        Note(
            "KF418",
            Severity.WARNING,
            "A manifest waives a rule that has nothing to say about it.\n\n"
            "The rule does not trip there, is switched off, cannot be waived, or does not exist. A waiver\n"
            "that stays behind would hide the next finding. Take the line out of the annotations.",
        ),
        Note(
            "KF419",
            Severity.INFO,
            "The groups that read the topics of a plan could not be read.\n\n"
            "Whether a partition increase or a deletion affects a group is then not known. Grant Describe\n"
            "on groups.",
        ),
        Note(
            "KF420",
            Severity.INFO,
            "A declared group does not exist, and its manifest sets nothing on the cluster.\n\n"
            "A group comes to be when a member joins or an offset is committed. A manifest without\n"
            "offsets.initial and without config has nothing to apply before that; rules hold all the same.",
        ),
        Note(
            "KF421",
            Severity.INFO,
            "Not every group may be known.\n\n"
            "Groups that have nothing but configs are known to DescribeConfigs alone, and those of newer\n"
            "protocols only to newer requests. Where this account or these brokers do not answer them, such\n"
            "a group looks as if it did not exist. Grant DescribeConfigs on the cluster.",
        ),
        Note(
            "KF422",
            Severity.INFO,
            "The record of earlier applies could not be read.\n\n"
            "Whether a first offset that the plan commits for a group was committed before, and has expired\n"
            "since, is then not known: the group would begin anew without consent. Grant Read on the topic\n"
            "__kafkaform_audit.",
        ),
        Note(
            "KF423",
            Severity.INFO,
            "Where replicas are was not read in full.\n\n"
            "Without that, a replication factor that differs is shown and not carried out, the controller\n"
            "places partitions that are added, and nobody looks at the racks of topics whose manifest says\n"
            "`strategy: rack-aware`. Grant Describe on the cluster.",
        ),
        Note(
            "KF424",
            Severity.WARNING,
            "A branch takes a manifest away.\n\n"
            "Nothing is deleted because a manifest is gone: the resource stays on the cluster, and nobody\n"
            "manages it. Said by `plan --changed-since`, as no change of the plan shows it. To delete it,\n"
            "keep the manifest with `state: absent`.",
        ),
        Note(
            "KF425",
            Severity.WARNING,
            "A branch has another configuration file than the one in use.\n\n"
            "With `--manifests-from`, a branch is data: who may connect where, with whose credentials, is\n"
            "not for it to say. Its kafkaform.yaml holds once it is merged.",
        ),
        Note(
            "KF426",
            Severity.WARNING,
            "What the manifests declared where a branch began could not be read.\n\n"
            "`plan --changed-since` then cannot tell a branch's own changes from drift that was there\n"
            "before.",
        ),
        Note(
            "KF427",
            Severity.WARNING,
            "A reassignment that the plan does not ask for is running.\n\n"
            "Somebody else moves replicas: a tool that balances the cluster, or a person. An apply never\n"
            "touches it, and moves no replica of its own before it is over; `moves:` of the cluster in\n"
            "kafkaform.yaml says whether it waits for that or gives up.",
        ),
        Note(
            "KF428",
            Severity.WARNING,
            "A rebalance leaves replicas where they are.\n\n"
            "A topic that is being reassigned, or whose replicas have no other place, stays as it is.\n"
            "So does one whose manifest lists its brokers (`placement: {strategy: static}`). A broker that\n"
            "such a topic lies on is not empty afterwards: do not switch it off.",
        ),
        Note(
            "KF429",
            Severity.INFO,
            "What several topics of a plan copy together.\n\n"
            "Each topic's own reason says how many replicas it copies, how many bytes these are, and how\n"
            "long that takes at the throttle; this adds them up. The time is what the broker that sends or\n"
            "receives the most needs; an apply also waits for each batch to be in sync.",
        ),
        Note(
            "KF438",
            Severity.WARNING,
            "A reset leaves partitions where they are.\n\n"
            "The file of offsets does not have them, or the group has no offset there and the reset counts\n"
            "from one (`--to current`, `--shift-by`). A member that gets such a partition without an offset\n"
            "begins at its auto.offset.reset. The suggestion is the command that moves them.",
        ),
        Note(
            "KF439",
            Severity.INFO,
            "A group stands in some partitions where a reset would put it.\n\n"
            "They are listed, so that every partition of the topics is accounted for.",
        ),
        Note(
            "KF440",
            Severity.WARNING,
            "A branch gives a resource to another team.\n\n"
            "Its label `team` (or `owner`) is another one than where the branch began. Nothing changes on\n"
            "the cluster, so no change of the plan shows it. Said by `plan --changed-since`.",
        ),
        Note(
            "KF507",
            Severity.WARNING,
            "The skew report does not say what a planned partition increase comes to.\n\n"
            "The report is not about that topic, found no record in it, or did not compute the planned\n"
            "count. The increase is then not held against the topic's skew policy. The message names the\n"
            "command that computes it.",
        ),
        Note(
            "KF508",
            Severity.INFO,
            "What a partition increase comes to, as records were measured.\n\n"
            "Said of topics with `keyed: false`, whose increase is safe: for the others it is a part of the\n"
            "reason that the plan and KF401 or KF402 give.",
        ),
        Note(
            "KF509",
            Severity.INFO,
            "The skew report does not say which cluster its records are from.\n\n"
            "It was made from files (`kafkaform skew --from`). That it fits the cluster of the plan is for\n"
            "whoever gave it to know.",
        ),
    )
}


_CLUSTER = frozenset({"facts", "inventory", "brokers", "live", "groups", "health"})

PREFIX = "kafkaform/waive."
"""The beginning of an annotation that waives a rule: the rule's code follows."""


def idle_waivers(
    scene: Scene,
    found: Iterable[tuple[ResourceRef | None, Diagnostic]],
    severities: Mapping[str, str],
    stages: Collection[Stage],
    known: Mapping[str, Rule | Note],
) -> Iterator[tuple[ResourceRef, Diagnostic]]:
    """Waivers of the scene's manifests that have nothing to overlook, as KF418.

    A rule that was not run, or that looks at something of the cluster that this scene does not have, may
    trip where more is known: nothing is said of its waivers.

    Args:
        scene: What was looked at.
        found: Everything that `check` found in it.
        severities: The project's own severities.
        stages: The stages that were run.
        known: Every rule and note by code, with those of plug-ins and the project's policies.
    """
    tripped = {(ref, diagnostic.code) for ref, diagnostic in found}
    inconclusive: dict[str, bool] = {}
    for desired in scene.desired:
        for code in desired.intent.waivers:
            entry = known.get(code)
            why, suggestion = None, "take the waiver out"
            if not isinstance(entry, Rule):
                why, suggestion = _no_rule(code, entry, known)
            elif not entry.waivable:
                why, suggestion = f"{code} cannot be waived", f"mend what it says: {command('rules', code)}"
            elif severities.get(code) == "off":
                why = f"{code} is waived, but kafkaform.yaml switches it off"
            elif entry.stage in stages and (desired.ref, code) not in tripped and desired.state is not None:
                if code not in inconclusive:
                    inconclusive[code] = _wants_more(entry, scene)
                if not inconclusive[code]:
                    why = f"{code} is waived, but has nothing to say about {desired.ref}"
            if why is not None:
                place = desired.place(f"metadata.annotations.{PREFIX}{code}")
                yield desired.ref, Diagnostic("KF418", Severity.WARNING, why, place, suggestion)


def _no_rule(code: str, entry: Note | None, known: Mapping[str, Rule | Note]) -> tuple[str, str]:
    if entry is not None:
        return f"{code} is waived, but is a note, not a rule", "take the waiver out"
    near = nearest(code, [known_code for known_code, one in known.items() if isinstance(one, Rule)])
    hint = f"did you mean {near}?" if near else "kafkaform rules lists the rules"
    return f"{quoted(code)} is waived, but there is no such rule", hint


def _wants_more(rule: Rule, scene: Scene) -> bool:
    """Whether a rule asks for something of the cluster that the scene does not have."""
    watched = _Watched(**{name: getattr(scene, name) for name in scene.__dataclass_fields__})
    list(rule.check(watched))
    return watched.missed


class _Watched(Scene):
    """A scene that notices when a rule asks for what it does not have."""

    @property
    def missed(self) -> bool:
        return bool(self.__dict__.get("_missed", False))

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name in _CLUSTER and not value:
            object.__getattribute__(self, "__dict__")["_missed"] = True
        return value
