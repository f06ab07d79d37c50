"""The notes of plans about what they read: codes that are not rules, but are explained like them."""

from __future__ import annotations

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


NOTES: dict[str, Note] = {
    note.code: note
    for note in (
        Note(
            "KF408",
            Severity.WARNING,
            "A requested offset is outside of the log.\n\n"
            "Brokers accept any number as a committed offset. A consumer that finds no record there starts\n"
            "at its auto.offset.reset. A reset stays between the first and last offset of the log.",
        ),
        Note(
            "KF410",
            Severity.ERROR,
            "A declared resource is not visible to this account, or not yet.\n\n"
            "A broker hides what an account may not describe, so it may or may not exist. It is neither\n"
            "created nor changed, and the plan exits 1. Grant Describe and DescribeConfigs on it. After a\n"
            "mass create, brokers do not show some of the topics for a while: plan again.",
        ),
        Note(
            "KF411",
            Severity.WARNING,
            "Brokers have different defaults.\n\n"
            "A topic without its own value then has a different value on each broker, and is described\n"
            "differently from one request to the next. Give all brokers the same default, or declare the\n"
            "value on topics.",
        ),
        Note(
            "KF412",
            Severity.INFO,
            "The brokers' configs could not be read.\n\n"
            "The value that takes effect when a config is removed is then unknown, and the removal is\n"
            "judged as if it lost data. Grant DescribeConfigs on the cluster; some services do not\n"
            "expose them.",
        ),
        Note(
            "KF413",
            Severity.INFO,
            "Running reassignments could not be read.\n\n"
            "A different replication factor may be one that is being changed right now. Grant Describe on\n"
            "the cluster.",
        ),
        Note(
            "KF414",
            Severity.INFO,
            "A part of the plan was not validated by the brokers.\n\n"
            "An account without the right to alter a resource cannot have a change of it validated, and a\n"
            "busy controller may not answer in time. The plan is still valid, but the brokers may refuse\n"
            "changes when it is applied. An account that only plans does not need the right that the note\n"
            "names: the account that applies does.",
        ),
        Note(
            "KF415",
            Severity.WARNING,
            "A broker did not return its configs.\n\n"
            "The plan uses the defaults of the other brokers; this one may have different ones. It may be\n"
            "down or not reachable from here: an apply may then fail, too.",
        ),
        Note(
            "KF416",
            Severity.INFO,
            "The sizes of topics, or the throttles of their copies, could not be read.\n\n"
            "Risky changes are then shown without the amount of data that they affect, or without the time\n"
            "that the copies take. Grant Describe and DescribeConfigs on the cluster.",
        ),
        Note(
            "KF417",
            Severity.WARNING,
            "A consent in a manifest covers nothing in the plan.\n\n"
            "A consent covers the value or the topic that it names (`retention-cut from 7d`,\n"
            "`delete of TOPIC-ID`), and no longer applies once that is gone: remove the line from the\n"
            "annotation when it is applied on every cluster. A consent without a value covers only hazards\n"
            "that have no value before the change; otherwise the finding says what to write.",
        ),
        Note(
            "KF418",
            Severity.WARNING,
            "A manifest waives a rule that has no finding for it.\n\n"
            "The rule has no finding there, is switched off, cannot be waived, or does not exist. A waiver\n"
            "that is left behind would hide the next finding. Remove the line from the annotations.",
        ),
        Note(
            "KF419",
            Severity.INFO,
            "The groups that read the topics of a plan could not be read.\n\n"
            "It is then unknown whether a partition increase or a deletion affects a group. Grant Describe\n"
            "on groups.",
        ),
        Note(
            "KF420",
            Severity.INFO,
            "A declared group does not exist, and its manifest sets nothing on the cluster.\n\n"
            "A group is created when a member joins or an offset is committed. A manifest without\n"
            "offsets.initial and config has nothing to apply before that; rules check it anyway.",
        ),
        Note(
            "KF421",
            Severity.INFO,
            "Some groups may not be visible.\n\n"
            "Groups that only have configs are visible only to DescribeConfigs, and groups of newer\n"
            "protocols only to newer requests. If the brokers do not answer these requests for this\n"
            "account, such a group seems not to exist. Grant DescribeConfigs on the cluster.",
        ),
        Note(
            "KF422",
            Severity.INFO,
            "The record of earlier applies could not be read.\n\n"
            "It is then unknown whether an initial offset of the plan was committed before and has expired\n"
            "since: the group would start again without consent. Grant Read on the topic\n"
            "__kafkaform_audit.",
        ),
        Note(
            "KF423",
            Severity.INFO,
            "The replica placement could not be read in full.\n\n"
            "Without it, a different replication factor is shown but not applied, the controller places new\n"
            "partitions, and the racks of topics with `strategy: rack-aware` are not checked. Grant\n"
            "Describe on the cluster.",
        ),
        Note(
            "KF424",
            Severity.WARNING,
            "A branch removes a manifest.\n\n"
            "Removing a manifest deletes nothing: the resource stays on the cluster, unmanaged. Reported by\n"
            "`plan --changed-since`, because no change of the plan shows it, with what is left of it (data,\n"
            "ACLs, members), the groups that read it, and the declared resources that name it. A new\n"
            "manifest in the same file, or with the same values, may be its renaming, which Kafka does not\n"
            "have. To delete the resource, declare it with `state: absent`.",
        ),
        Note(
            "KF425",
            Severity.WARNING,
            "A branch changes the configuration file.\n\n"
            "With `--manifests-from`, a branch is data: it cannot choose addresses or credentials. The plan\n"
            "uses the branch's defaults, limits, policies and all other sections of its kafkaform.yaml, and\n"
            "the `clusters` of the configuration in use. It is an error if the branch changes the cluster\n"
            "that is planned, because an apply of the merged branch can then differ from the plan.",
        ),
        Note(
            "KF426",
            Severity.WARNING,
            "The manifests at the merge base of a branch could not be read.\n\n"
            "`plan --changed-since` then cannot separate the changes of a branch from earlier drift.",
        ),
        Note(
            "KF427",
            Severity.WARNING,
            "A reassignment that the plan does not ask for is running.\n\n"
            "Another tool, such as one that balances the cluster, or a person started it. An apply\n"
            "never changes it, and moves no replicas until it has finished; `moves:` of the cluster in\n"
            "kafkaform.yaml sets whether the apply waits for that or refuses.",
        ),
        Note(
            "KF428",
            Severity.WARNING,
            "A rebalance does not move some replicas.\n\n"
            "A topic that is being reassigned, or whose replicas have no other place, is not moved. Neither\n"
            "is a topic whose manifest lists its brokers (`placement: {strategy: static}`). A broker with\n"
            "such a topic is not empty afterwards: do not shut it down.",
        ),
        Note(
            "KF429",
            Severity.INFO,
            "The replicas that several topics of a plan copy together.\n\n"
            "The reason of each topic names its replicas to copy, their bytes, and the time at the\n"
            "throttle; this note is their sum. The time is that of the broker that sends or receives the\n"
            "most; an apply also waits for each batch to be in sync.",
        ),
        Note(
            "KF430",
            Severity.INFO,
            "Client quotas, users or ACLs could not be listed.\n\n"
            "Brokers show quotas to accounts with DescribeConfigs on the cluster, users and ACLs to those\n"
            "with Describe on it. Without these rights, `import` and `compare` do not cover them. Grant\n"
            "them, or leave them out: `--kind topic --kind group`.",
        ),
        Note(
            "KF431",
            Severity.INFO,
            "A principal may use other topics or groups after the plan.\n\n"
            "The numbers are those of existing topics and groups, decided as Kafka's authorizer does: with\n"
            "denials, prefixes, `*`, super users and allow.everyone.if.no.acl.found, for an address that no\n"
            "ACL names, as if all changes that are not refused were applied. Principals whose ACLs change\n"
            "are compared, and a user that no ACL names. Compare with what the change was meant to do.",
        ),
        Note(
            "KF432",
            Severity.WARNING,
            "The declared password of a user cannot be compared with the live one.\n\n"
            "Brokers return no passwords, so kafkaform logs in with the declared one. It needs the variable\n"
            "or file of the manifest, and a SASL listener with the mechanism. Without these, a password\n"
            "that was changed by hand is not found; a plan without other differences has no change.",
        ),
        Note(
            "KF433",
            Severity.INFO,
            "The cluster has ACLs, client quotas or SCRAM credentials that this version does not know.\n\n"
            "Their type of resource, operation, entity or mechanism is of a later Kafka. They are not\n"
            "compared, changed or imported, and `can` does not consider them; `import` exits 1. Use a\n"
            "kafkaform that knows the version of the brokers.",
        ),
        Note(
            "KF438",
            Severity.WARNING,
            "A reset does not change some partitions.\n\n"
            "The file of offsets does not contain them, or the group has no offset there and the reset\n"
            "needs one (`--to current`, `--shift-by`). A member that is assigned such a partition without\n"
            "an offset starts at its auto.offset.reset. The suggestion is the command that resets them.",
        ),
        Note(
            "KF439",
            Severity.INFO,
            "A group is already at the target of a reset in some partitions.\n\n"
            "They are listed, so that every partition of the topics is accounted for.",
        ),
        Note(
            "KF440",
            Severity.WARNING,
            "A branch gives a resource to another team.\n\n"
            "Its label `team` (or `owner`) differs from that at the merge base. Nothing changes on the\n"
            "cluster, so no change of the plan shows it. Reported by `plan --changed-since`.",
        ),
        Note(
            "KF441",
            Severity.INFO,
            "The brokers choose where new partitions are placed.\n\n"
            "They refuse the places that the plan gives for the new partitions, and accept the partitions\n"
            "without them, as Redpanda does. Where the manifest lists the brokers of every partition\n"
            "(`placement: {strategy: static}`), the change is refused instead.",
        ),
        Note(
            "KF450",
            Severity.WARNING,
            "A branch is behind the branch that it is to be merged into.\n\n"
            "`plan --changed-since REF` compares with where the branch started and with REF as it is now.\n"
            "What the branch does not change is planned as REF declares it, field by field, as a merge\n"
            "would: otherwise the plan would undo what was merged since. Where both change a field, the\n"
            "plan uses the value of the branch, and the message names the resource. Rebase the branch.",
        ),
        Note(
            "KF451",
            Severity.WARNING,
            "A branch changes a field whose live value was not declared before.\n\n"
            "`plan --changed-since` shows the change from the live value to that of the branch. The value\n"
            "that was declared before the branch is different: it was changed on the cluster, or it was\n"
            "never applied. The plan would replace the live value. Find out why it was set before you\n"
            "approve. Of a password, only what a reading shows is compared: its iterations.",
        ),
        Note(
            "KF452",
            Severity.WARNING,
            "A reset skips records of a transaction that is open.\n\n"
            "Consumers with isolation.level=read_committed can read up to the last stable offset: the\n"
            "first offset of a transaction that is open. A reset beyond it, such as to latest, skips the\n"
            "records of that transaction, although they have not been read yet, even if it is committed\n"
            "later. Wait until it has ended, then plan the reset again; KF311 shows how to end a hanging\n"
            "one.",
        ),
        Note(
            "KF507",
            Severity.WARNING,
            "The skew report does not predict a planned partition increase.\n\n"
            "The report does not cover that topic, found no record in it, or did not compute the planned\n"
            "count; the message then names the command that computes it. Or no prediction holds for the\n"
            "topic: its producers place records in a way that kafkaform cannot repeat, as the message says.\n"
            "The increase is not judged by the topic's skew policy.",
        ),
        Note(
            "KF508",
            Severity.INFO,
            "The predicted effect of a partition increase.\n\n"
            "Reported for topics with `keyed: false`, whose increase is safe: for other topics it is part\n"
            "of the reason in the plan and in KF401 or KF402.",
        ),
        Note(
            "KF509",
            Severity.INFO,
            "The skew report does not name the cluster that its records are from.\n\n"
            "It was made from files (`kafkaform skew --from`). kafkaform cannot check that they are from\n"
            "the cluster of the plan.",
        ),
    )
}
