"""The notes of plans about what they read: codes that are not rules, but are explained like them."""

from __future__ import annotations

import re

from kafkaform.core.model import Severity
from kafkaform.core.values import Value


class Note(Value):
    """A code that the planner or the reading of a cluster emits."""

    code: str
    severity: Severity
    explanation: str

    @property
    def summary(self) -> str:
        """The note in one line."""
        return self.explanation.splitlines()[0]


_NOTES = """
KF408 warning: A requested offset is outside of the log.

Brokers accept any number as a committed offset. A consumer that finds no record there starts
at its auto.offset.reset. A reset stays between the first and last offset of the log.

KF410 error: A declared resource is not visible to this account, or not yet.

A broker hides what an account may not describe, so it may or may not exist. It is neither
created nor changed, and the plan exits 1. Grant Describe and DescribeConfigs on it. After a
mass create, brokers do not show some of the topics for a while: plan again.

KF411 warning: Brokers have different defaults.

A topic without its own value then has a different value on each broker, and is described
differently from one request to the next. Give all brokers the same default, or declare the
value on topics.

KF412 info: The brokers' configs could not be read.

The value that takes effect when a config is removed is then unknown, and the removal is
judged as if it lost data. Grant DescribeConfigs on the cluster; some services do not
expose them.

KF413 info: Running reassignments could not be read.

A different replication factor may be one that is being changed right now. Grant Describe on
the cluster.

KF414 info: A part of the plan was not validated by the brokers.

An account without the right to alter a resource cannot have a change of it validated, and a
busy controller may not answer in time. The plan is still valid, but the brokers may refuse
changes when it is applied. An account that only plans does not need the right that the note
names: the account that applies does.

KF415 warning: A broker did not return its configs.

The plan uses the defaults of the other brokers; this one may have different ones. It may be
down or not reachable from here: an apply may then fail, too.

KF416 info: The sizes of topics, or the throttles of their copies, could not be read.

Risky changes are then shown without the amount of data that they affect, or without the time
that the copies take. Grant Describe and DescribeConfigs on the cluster.

KF417 warning: A consent in a manifest covers nothing in the plan.

A consent covers the value or the topic that it names (`retention-cut from 7d`,
`delete of TOPIC-ID`), and no longer applies once that is gone: remove the line from the
annotation when it is applied on every cluster. A consent without a value covers only hazards
that have no value before the change; otherwise the finding says what to write.

KF418 warning: A manifest waives a rule that has no finding for it.

The rule has no finding there, is switched off, cannot be waived, or does not exist. A waiver
that is left behind would hide the next finding. Remove the line from the annotations.

KF419 info: The groups that read the topics of a plan could not be read.

It is then unknown whether a partition increase or a deletion affects a group. Grant Describe
on groups.

KF420 info: A declared group does not exist, and its manifest sets nothing on the cluster.

A group is created when a member joins or an offset is committed. A manifest without
offsets.initial and config has nothing to apply before that; rules check it anyway.

KF421 info: Some groups may not be visible.

Groups that only have configs are visible only to DescribeConfigs, and groups of newer
protocols only to newer requests. If the brokers do not answer these requests for this
account, such a group seems not to exist. Grant DescribeConfigs on the cluster.

KF422 info: The record of earlier applies could not be read.

It is then unknown whether an initial offset of the plan was committed before and has expired
since: the group would start again without consent. Grant Read on the topic
__kafkaform_audit.

KF423 info: The replica placement could not be read in full.

Without it, a different replication factor is shown but not applied, the controller places new
partitions, and the racks of topics with `strategy: rack-aware` are not checked. Grant
Describe on the cluster.

KF424 warning: A branch removes a manifest.

Removing a manifest deletes nothing: the resource stays on the cluster, unmanaged. Reported by
`plan --changed-since`, because no change of the plan shows it, with what is left of it (data,
ACLs, members), the groups that read it, and the declared resources that name it. A new
manifest in the same file, or with the same values, may be its renaming, which Kafka does not
have. To delete the resource, declare it with `state: absent`.

KF425 warning: A branch changes the configuration file.

With `--manifests-from`, a branch is data: it cannot choose addresses or credentials. The plan
uses the branch's defaults, limits, policies and all other sections of its kafkaform.yaml, and
the `clusters` of the configuration in use. It is an error if the branch changes the cluster
that is planned, because an apply of the merged branch can then differ from the plan.

KF426 warning: The manifests at the merge base of a branch could not be read.

`plan --changed-since` then cannot separate the changes of a branch from earlier drift.

KF427 warning: A reassignment that the plan does not ask for is running.

Another tool, such as one that balances the cluster, or a person started it. An apply
never changes it, and moves no replicas until it has finished; `moves:` of the cluster in
kafkaform.yaml sets whether the apply waits for that or refuses.

KF428 warning: A rebalance does not move some replicas.

A topic that is being reassigned, or whose replicas have no other place, is not moved. Neither
is a topic whose manifest lists its brokers (`placement: {strategy: static}`). A broker with
such a topic is not empty afterwards: do not shut it down.

KF429 info: The replicas that several topics of a plan copy together.

The reason of each topic names its replicas to copy, their bytes, and the time at the
throttle; this note is their sum. The time is that of the broker that sends or receives the
most; an apply also waits for each batch to be in sync.

KF430 info: Client quotas, users, ACLs or subjects could not be listed.

Brokers show quotas to accounts with DescribeConfigs on the cluster, users and ACLs to those
with Describe on it. Without these rights, `import` and `compare` do not cover them. Grant
them, or leave them out: `--kind topic --kind group`.

KF431 info: A principal may use other topics or groups after the plan.

The numbers are those of existing topics and groups, decided as Kafka's authorizer does: with
denials, prefixes, `*`, super users and allow.everyone.if.no.acl.found, for an address that no
ACL names, as if all changes that are not refused were applied. Principals whose ACLs change
are compared, and a user that no ACL names. Compare with what the change was meant to do.

KF432 warning: The declared password of a user cannot be compared with the live one.

Brokers return no passwords, so kafkaform logs in with the declared one. It needs the variable
or file of the manifest, and a SASL listener with the mechanism. Without these, a password
that was changed by hand is not found; a plan without other differences has no change.

KF433 info: The cluster has ACLs, client quotas or SCRAM credentials that this version does not know.

Their type of resource, operation, entity or mechanism is of a later Kafka. They are not
compared, changed or imported, and `can` does not consider them; `import` exits 1. Use a
kafkaform that knows the version of the brokers.

KF438 warning: A reset does not change some partitions.

The file of offsets does not contain them, or the group has no offset there and the reset
needs one (`--to current`, `--shift-by`). A member that is assigned such a partition without
an offset starts at its auto.offset.reset. The suggestion is the command that resets them.

KF439 info: A group is already at the target of a reset in some partitions.

They are listed, so that every partition of the topics is accounted for.

KF440 warning: A branch gives a resource to another team.

Its label `team` (or `owner`) differs from that at the merge base. Nothing changes on the
cluster, so no change of the plan shows it. Reported by `plan --changed-since`.

KF441 info: The brokers choose where new partitions are placed.

They refuse the places that the plan gives for the new partitions, and accept the partitions
without them, as Redpanda does. Where the manifest lists the brokers of every partition
(`placement: {strategy: static}`), the change is refused instead.

KF444 warning: The order in which clients have to use a new schema.

The compatibility level of the subject decides it. With BACKWARD, consumers of the new schema
read the records of the previous one, but not the reverse: upgrade all consumers before the first
producer. With FORWARD, upgrade the producers first. With FULL any order is safe, and with NONE
nothing is known. The message names the declared groups that read the topic.

KF444 warning: The order in which clients have to use a new schema.

The compatibility level of the subject decides it. With BACKWARD, consumers of the new schema
read the records of the previous one, but not the reverse: upgrade all consumers before the first
producer. With FORWARD, upgrade the producers first. With FULL any order is safe, and with NONE
nothing is known. The message names the declared groups that read the topic.

KF450 warning: A branch is behind the branch that it is to be merged into.

`plan --changed-since REF` compares with where the branch started and with REF as it is now.
What the branch does not change is planned as REF declares it, field by field, as a merge
would: otherwise the plan would undo what was merged since. Where both change a field, the
plan uses the value of the branch, and the message names the resource. Rebase the branch.

KF451 warning: A branch changes a field whose live value was not declared before.

`plan --changed-since` shows the change from the live value to that of the branch. The value
that was declared before the branch is different: it was changed on the cluster, or it was
never applied. The plan would replace the live value. Find out why it was set before you
approve. Of a password, only what a reading shows is compared: its iterations.

KF452 warning: A reset skips records of a transaction that is open.

Consumers with isolation.level=read_committed can read up to the last stable offset: the
first offset of a transaction that is open. A reset beyond it, such as to latest, skips the
records of that transaction, although they have not been read yet, even if it is committed
later. Wait until it has ended, then plan the reset again; KF311 shows how to end a hanging
one.

KF507 warning: The skew report does not predict a planned partition increase.

The report does not cover that topic, found no record in it, or did not compute the planned
count; the message then names the command that computes it. Or no prediction holds for the
topic: its producers place records in a way that kafkaform cannot repeat, as the message says.
The increase is not judged by the topic's skew policy.

KF508 info: The predicted effect of a partition increase.

Reported for topics with `keyed: false`, whose increase is safe: for other topics it is part
of the reason in the plan and in KF401 or KF402.

KF509 info: The skew report does not name the cluster that its records are from.

It was made from files (`kafkaform skew --from`). kafkaform cannot check that they are from
the cluster of the plan.
"""

_HEADINGS = re.compile(r"^(KF\d+) (\w+): ", re.MULTILINE)
_PARTS = _HEADINGS.split(_NOTES)[1:]

NOTES: dict[str, Note] = {
    code: Note(code, Severity(severity), explanation.strip())
    for code, severity, explanation in zip(_PARTS[::3], _PARTS[1::3], _PARTS[2::3], strict=True)
}
