"""Rules about the subjects of a schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Desired, Severity
from kafkaform.core.wording import nearest
from kafkaform.resources import topic_ref
from kafkaform.resources.subject import SubjectKind
from kafkaform.resources.subject.fields import STATE, find_topic
from kafkaform.rules.catalogue import Finding, RuleContext, rule
from kafkaform.rules.topic_values import list_topics

if TYPE_CHECKING:
    from collections.abc import Iterator


def _is_declared(subject: Desired) -> bool:
    return subject.state is not None and STATE not in subject.state


@rule("KF701", Severity.WARNING)
def undeclared_topic_of_subject(context: RuleContext) -> Iterator[Finding]:
    """A subject is named after a topic that no manifest declares.

    Serializers look a schema up as TOPIC-value or TOPIC-key: without such a topic, no client uses the
    subject. Correct the name, declare the topic, or waive the rule. Names of other naming strategies are
    not checked.
    """
    for subject in context.of_kind(SubjectKind.name):
        topic = find_topic(subject.ref.name)
        if not _is_declared(subject) or topic is None or topic_ref(topic) in context.declared:
            continue
        if context.unread or (context.subset and topic_ref(topic) in context.inventory):
            continue
        near = nearest(topic, [each.name for each in list_topics(context)])
        ending = subject.ref.name.removeprefix(topic)
        yield Finding(
            f"no manifest declares the topic {topic}",
            f"did you mean {near + ending!r}?" if near else "declare it, or waive the rule",
            Severity.INFO if context.subset else None,
            subject=subject,
            path="metadata.name",
        )


@rule("KF702", Severity.WARNING)
def undeclared_reference(context: RuleContext) -> Iterator[Finding]:
    """A schema refers to a subject that no manifest declares.

    The registry refuses a schema whose references do not exist. If a subject of another project has it,
    waive the rule and name the owner.
    """
    subjects = [subject for subject in context.of_kind(SubjectKind.name) if _is_declared(subject)]
    declared = {subject.ref.name for subject in subjects}
    for subject in subjects:
        references = subject.intent.spec.get("references", ())
        for reference in references if isinstance(references, list) else ():
            name = reference["subject"]
            if name in declared or context.unread:
                continue
            near = nearest(name, declared)
            yield Finding(
                f"no manifest declares the referenced subject {name}",
                f"did you mean {near!r}?" if near else "declare it, or waive the rule with its owner",
                Severity.INFO if context.subset else None,
                subject=subject,
                path="references",
            )
