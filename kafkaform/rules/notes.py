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

A consumer that finds no record at its committed offset starts at its auto.offset.reset. A reset
stays between the first and last offset of the log.

KF410 error: A declared resource is not visible to this account, or not yet.

A broker hides what an account may not describe. It is neither created nor changed, and the plan
exits 1. Grant Describe and DescribeConfigs on it. After a mass create, plan again.

KF411 warning: Brokers have different defaults.

A topic without its own value is then described differently from one request to the next. Give all
brokers the same default, or declare the value on topics.

KF412 info: The brokers' configs could not be read.

The removal of a config is then judged as if it lost data. Grant DescribeConfigs on the cluster;
some services do not expose them.

KF413 info: Running reassignments could not be read.

A different replication factor may be one that is being changed right now. Grant Describe on
the cluster.

KF414 info: A part of the plan was not validated by the brokers.

The account may not alter the resource, or the controller is busy. Brokers may refuse the changes
when they are applied. Only the account that applies needs the right that the note names.

KF415 warning: A broker did not return its configs.

The plan uses the defaults of the other brokers. An apply may fail if the broker is not reachable.

KF416 info: The sizes of topics, or the throttles of their copies, could not be read.

Changes are then shown without the data that they affect, or the time of copies. Grant Describe and
DescribeConfigs on the cluster.

KF417 warning: A consent in a manifest covers nothing in the plan.

A consent covers the value or topic that it names (`retention-cut from 7d`, `delete of TOPIC-ID`).
Once applied on every cluster, remove the line. Otherwise the finding says what to write.

KF418 warning: A manifest waives a rule that has no finding for it.

A waiver that is left would hide the next finding: remove the line. The rule may also be off, or not
waivable.

KF419 info: The groups that read the topics of a plan could not be read.

It is unknown whether a partition increase or a deletion affects a group. Grant Describe on groups.

KF420 info: A declared group does not exist, and its manifest sets nothing on the cluster.

A group is created when a member joins or an offset is committed. Without offsets.initial and config
there is nothing to apply; rules check it anyway.

KF421 info: Some groups may not be visible.

Groups that only have configs are visible only to DescribeConfigs. Grant it on the cluster.

KF422 info: The record of earlier applies could not be read.

It is unknown whether an initial offset was committed before and has expired since: the group would
start again without consent. Grant Read on the topic __kafkaform_audit.

KF423 info: The replica placement could not be read in full.

A different replication factor is then shown but not applied, and racks are not checked. Grant
Describe on the cluster.

KF424 warning: A branch removes a manifest.

The resource stays on the cluster, unmanaged; to delete it, declare it with `state: absent`. A new
manifest with the same values may be its renaming, which Kafka does not have.

KF425 warning: A branch changes the configuration file.

With `--manifests-from`, the plan takes the defaults, limits and policies of the branch, but not its
`clusters`. It is an error if the branch changes the cluster that is planned, as an apply of the
merged branch can differ.

KF426 warning: The manifests at the merge base of a branch could not be read.

`plan --changed-since` then cannot separate the changes of a branch from earlier drift.

KF427 warning: A reassignment that the plan does not ask for is running.

Another tool or a person started it. An apply never changes it, and moves no replicas until it has
finished; `moves:` of the cluster in kafkaform.yaml sets whether it waits or refuses.

KF428 warning: A rebalance does not move some replicas.

A topic that is being reassigned, whose replicas have no other place, or that has `placement:
{strategy: static}` is not moved. A broker with such a topic is not empty: do not shut it down.

KF429 info: The replicas that several topics of a plan copy together.

The time is that of the broker that sends or receives the most; an apply also waits for each batch
to be in sync.

KF430 info: Client quotas, users, ACLs or subjects could not be listed.

`import` and `compare` then do not cover them. Grant DescribeConfigs on the cluster for quotas,
Describe for users and ACLs, or choose kinds with `--kind`. If a schema registry did not list all
subjects (warning), `import` exits 1.

KF431 info: A principal may use other topics or groups after the plan.

Decided as Kafka's authorizer does, as if all changes that are not refused were applied. Compare
with what the change was meant to do.

KF432 warning: The declared password of a user cannot be compared with the live one.

Brokers return no passwords, so kafkaform logs in with the declared one. That needs its variable or
file, and a SASL listener with the mechanism. Otherwise a password that was changed by hand is not
found.

KF433 info: The cluster has ACLs, client quotas or SCRAM credentials that this version does not know.

They are of a later Kafka, and are not compared, changed or imported; `can` does not consider them,
and `import` exits 1. Use a kafkaform that knows the version of the brokers.

KF438 warning: A reset does not change some partitions.

The file of offsets does not contain them, or the reset needs a committed offset and the group has
none there. A member starts there at its auto.offset.reset. The suggestion is the command that
resets them.

KF439 info: A group is already at the target of a reset in some partitions.

They are listed, so that every partition of the topics is accounted for.

KF440 warning: A branch gives a resource to another team.

Its label `team` (or `owner`) differs from that at the merge base. Nothing changes on the cluster,
so no change of the plan shows it.

KF441 info: The brokers choose where new partitions are placed.

They refuse the places that the plan gives, as Redpanda does. With `placement: {strategy: static}`
the change is refused instead.

KF444 warning: The order in which clients have to use a new schema.

The compatibility level of the subject decides. BACKWARD: upgrade all consumers before the first
producer. FORWARD: the producers first. FULL: any order. NONE: unknown. The message names the
declared groups that read the topic.

KF444 warning: The order in which clients have to use a new schema.

The compatibility level of the subject decides. BACKWARD: upgrade all consumers before the first
producer. FORWARD: the producers first. FULL: any order. NONE: unknown. The message names the
declared groups that read the topic.

KF445 warning: A topic is not recreated, as the brokers have no topic ids.

`spec.recreate` names the live topic by its id, so that it happens once. Brokers before Kafka 2.8
and some services have no ids. There, delete the topic with `state: absent`, apply, and declare it
again.

KF450 warning: A branch is behind the branch that it is to be merged into.

What the branch does not change is planned as REF declares it now, as a merge would. Where both
change a field, the plan uses the branch's value and names the resource. Rebase the branch.

KF451 warning: A branch changes a field whose live value was not declared before.

It was changed on the cluster, or never applied, and the plan would replace it. Find out why it was
set before you approve.

KF452 warning: A reset skips records of a transaction that is open.

Consumers with isolation.level=read_committed read up to the first offset of an open transaction. A
reset beyond it skips its records even if it is committed later. Wait until it has ended (KF311 if
it hangs), then plan again.

KF507 warning: The skew report does not predict a planned partition increase.

The report does not cover the topic or the planned count (the message names the command that does),
or producers place records in an unknown way. The increase is not judged by the skew policy.

KF508 info: The predicted effect of a partition increase.

Reported for topics with `keyed: false`; for others it is part of the reason in the plan and in
KF401 or KF402.

KF509 info: The skew report does not name the cluster that its records are from.

It was made from files (`kafkaform skew --from`): kafkaform cannot check that they are from the
cluster of the plan.
"""

_HEADINGS = re.compile(r"^(KF\d+) (\w+): ", re.MULTILINE)
_PARTS = _HEADINGS.split(_NOTES)[1:]

NOTES: dict[str, Note] = {
    code: Note(code, Severity(severity), explanation.strip())
    for code, severity, explanation in zip(_PARTS[::3], _PARTS[1::3], _PARTS[2::3], strict=True)
}
