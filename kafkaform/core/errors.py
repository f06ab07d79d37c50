"""Every error that kafkaform raises on purpose, as one small tree.

    KafkaformError                 one line for the user, an optional hint, an exit code
    ├── UsageError                 the command line itself is wrong (exit 64)
    ├── InvalidInput               manifests or configuration are wrong: all problems of one run
    ├── PlanFileError              a saved plan cannot be trusted or does not fit
    ├── SkewReportError            a skew report cannot be read, is of another cluster, or is too old
    ├── DevClusterError            the local development cluster cannot do what was asked
    ├── UnusableCertificate        a certificate or key of client properties cannot be used
    ├── JavaError                  Java, or the jars that it is to run, cannot be had
    ├── LockHeld                   another apply holds the cluster's lock
    ├── AuditError                 the record of applies cannot be written or read
    ├── RepositoryError            Git cannot tell what is asked of it
    ├── ForgeError                 GitHub did not do what was asked
    └── ClusterError               the Kafka cluster said no, or nothing
        ├── Unreachable            no broker answered within the time allowed
        ├── AuthenticationFailed   credentials or TLS were not accepted
        ├── PermissionDenied       the account may not do this
        ├── OutcomeUnknown         a request was sent and its answer never came
        ├── NotOffered             no broker was asked: this cluster does not have the request
        ├── MalformedAnswer        an answer is not what Kafka's protocol says
        ├── LockLost               the lock went to another apply: nothing more is sent
        └── RequestRejected        a broker answered with an error code

Client errors are translated into these at the edge (`kafkaform.cluster`), so nothing else matches on
the error types of a Kafka client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.core.model import Location
    from kafkaform.core.rights import Right


class KafkaformError(Exception):
    """The root: a message of one line, and what to do about it.

    Args:
        message: What is wrong, in one line.
        hint: What the user can do, in one line.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(KafkaformError):
    """The command was called in a way that cannot be meant; exit code 64 (EX_USAGE of sysexits.h)."""

    exit_code = 64


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a file: where, what, and what was probably meant."""

    message: str
    location: Location | None = None
    hint: str | None = None

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.message}{hint}"


class InvalidInput(KafkaformError):  # noqa: N818 - a state of the input, not an accident
    """Manifests or configuration files are wrong; carries every problem found in one run."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''} in the input")


class PlanFileError(KafkaformError):
    """A saved plan is damaged, of another format, or made for another cluster."""


class SkewReportError(KafkaformError):
    """A skew report is damaged, of another format or cluster, or too old to go by."""


class DevClusterError(KafkaformError):
    """The local development cluster cannot be started, found or stopped."""


class UnusableCertificate(KafkaformError):  # noqa: N818 - a state of a file, not an accident
    """A certificate, a key or its password, as client properties name them, cannot be used by any client."""


class JavaError(KafkaformError):
    """Java, or the jars that it is to run, are not there and cannot be had."""


class LockHeld(KafkaformError):  # noqa: N818 - a state of the cluster, not an accident
    """Another apply holds the cluster's lock, and did not let go of it in time."""


class AuditError(KafkaformError):
    """The record of applies cannot be written, or not be read."""


class RepositoryError(KafkaformError):
    """Git cannot tell what is asked of it: no repository here, no such commit, or no git at all."""


class ForgeError(KafkaformError):
    """GitHub did not do what was asked, or cannot be reached."""


class ClusterError(KafkaformError):
    """The Kafka cluster refused, or did not answer.

    Attributes:
        in_part: Whether some of what was asked for was carried out all the same, or may have been.
    """

    in_part = False


class Unreachable(ClusterError):  # noqa: N818
    """No broker answered within the time allowed."""


class AuthenticationFailed(ClusterError):  # noqa: N818
    """The broker did not accept the credentials, or the TLS handshake failed."""


class PermissionDenied(ClusterError):  # noqa: N818
    """The account has no right to do this.

    Args:
        message: What it may not do, in one line.
        hint: What the user can do, in one line.
        resource: The type of the resource, as in `Right`; empty if the broker did not say.
        right: The right that is missing; None where it is not known.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, resource: str = "", right: Right | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.resource = resource if right is None else right.resource
        self.right = right


class OutcomeUnknown(ClusterError):  # noqa: N818
    """A request was sent, but its answer never came: it may or may not have been carried out."""


class NotOffered(ClusterError):  # noqa: N818
    """This cluster does not offer a request, or not with what is asked; nothing was sent.

    Args:
        request: Kafka's name of the request.
        how: In which version, or with what, if it is offered otherwise.
    """

    def __init__(self, request: str, how: str = "") -> None:
        super().__init__(f"this cluster does not offer {request}{f' {how}' if how else ''}")
        self.request = request


class MalformedAnswer(ClusterError):  # noqa: N818
    """An answer is not what Kafka's protocol says: damaged on its way, or of somebody who is no broker."""


class LockLost(ClusterError):  # noqa: N818
    """This apply does not hold the cluster's lock any more; the request was not sent."""


class MovesUnfinished(ClusterError):  # noqa: N818 - replicas that are moved stay where they are
    """Replicas were not moved, or not all of them; what was known of them is in the message."""


class RequestRejected(ClusterError):  # noqa: N818
    """A broker answered with an error.

    Args:
        message: The broker's own words, in one line.
        code: Kafka's name of the error code, such as `INVALID_CONFIG`.
        hint: What the user can do, in one line.
    """

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code
