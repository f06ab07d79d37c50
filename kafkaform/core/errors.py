"""Every error that kafkaform raises on purpose, as one small tree.

    KafkaformError                 one line for the user, an optional hint, an exit code
    ├── UsageError                 the command line itself is wrong (exit 64)
    ├── InvalidInput               manifests or configuration are wrong: all problems of one run
    ├── PlanFileError              a saved plan cannot be trusted or does not fit
    ├── SkewReportError            a skew report cannot be read, is of another cluster, or is too old
    ├── DevClusterError            the local development cluster cannot be started, found or stopped
    ├── UnusableCertificate        a certificate or key of client properties cannot be used
    ├── JavaError                  Java, or the jars that it runs, cannot be found or downloaded
    ├── LockHeld                   another apply holds the cluster's lock
    ├── AuditError                 the record of applies cannot be written or read
    ├── RepositoryError            Git failed
    ├── ForgeError                 GitHub or GitLab rejected a request
    └── ClusterError               the Kafka cluster rejected a request, or did not answer
        ├── Unreachable            no broker answered within the time allowed
        ├── AuthenticationFailed   credentials or TLS were not accepted
        ├── PermissionDenied       the account lacks a right
        ├── OutcomeUnknown         a request was sent, but not answered
        ├── NotOffered             this cluster does not support the request: nothing was sent
        ├── MalformedResponse      a response violates Kafka's protocol
        ├── LockLost               this apply lost the lock: nothing more is sent
        ├── MovesUnfinished        replicas were not moved, or not all of them
        └── RequestRejected        a broker answered with an error code

Client errors are translated into these at the edge (`kafkaform.cluster`), so nothing else matches on
the error types of a Kafka client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.core.model import Location
    from kafkaform.core.rights import Right


class KafkaformError(Exception):
    """The root of all errors: a one-line message and a hint.

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
    """The command line is invalid."""

    # EX_USAGE of sysexits.h: different from a failed apply (1) and from a plan with changes (2).
    exit_code = 64


class Problem(Value):
    """A problem in a file: message, location, and hint."""

    message: str
    location: Location | None = None
    hint: str | None = None

    def __str__(self) -> str:
        location = f"{self.location}: " if self.location else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{location}{self.message}{hint}"


class InvalidInput(KafkaformError):  # noqa: N818 - a state of the input, not an accident
    """Manifests or configuration files are wrong; carries every problem found in one run."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''} in the input")


class PlanFileError(KafkaformError):
    """A saved plan is damaged, of another format, or made for another cluster."""


class SkewReportError(KafkaformError):
    """A skew report is damaged, of another format or cluster, or too old."""


class DevClusterError(KafkaformError):
    """The local development cluster cannot be started, found or stopped."""


class UnusableCertificate(KafkaformError):  # noqa: N818 - a state of a file, not an accident
    """A certificate, key or password in the client properties cannot be used by any client."""


class JavaError(KafkaformError):
    """Java, or the jars that it runs, are missing and cannot be downloaded."""


class LockHeld(KafkaformError):  # noqa: N818 - a state of the cluster, not an accident
    """Another apply holds the cluster's lock, and did not release it in time."""


class AuditError(KafkaformError):
    """The record of applies cannot be written or read."""


class RepositoryError(KafkaformError):
    """Git failed: there is no repository, no such commit, or git is not installed."""


class ForgeError(KafkaformError):
    """GitHub or GitLab rejected a request, or cannot be reached."""


class ClusterError(KafkaformError):
    """The Kafka cluster rejected a request, or did not answer.

    Attributes:
        is_partial: Whether a part of the request was carried out, or may have been.
    """

    # An apply reports a change that may have taken effect in part differently from one that was not sent.
    is_partial = False


class Unreachable(ClusterError):  # noqa: N818
    """No broker answered within the time allowed."""


class AuthenticationFailed(ClusterError):  # noqa: N818
    """The broker did not accept the credentials, or the TLS handshake failed."""


class LoginRefused(AuthenticationFailed):
    """The broker refused a login, as its password is wrong or its user does not exist."""


class PermissionDenied(ClusterError):  # noqa: N818
    """The account has no right to do this.

    Args:
        message: What the account may not do, in one line.
        hint: What the user can do, in one line.
        resource: The type of the resource, as in `Right`; empty if unknown.
        right: The right that is missing; None where it is not known.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, resource: str = "", right: Right | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.resource = resource if right is None else right.resource
        self.right = right


class OutcomeUnknown(ClusterError):  # noqa: N818
    """A request was sent, but not answered: it may or may not have been carried out."""


class NotOffered(ClusterError):  # noqa: N818
    """This cluster does not support a request, or an option of it; nothing was sent.

    Args:
        request: Kafka's name of the request.
        how: The version or option that is not supported, if others are.
    """

    def __init__(self, request: str, how: str = "") -> None:
        super().__init__(f"this cluster does not support {request}{f' {how}' if how else ''}")
        self.request = request


class MalformedResponse(ClusterError):  # noqa: N818
    """A response violates Kafka's protocol: it was damaged in transit, or the sender is not a broker."""


class LockLost(ClusterError):  # noqa: N818
    """This apply does not hold the cluster's lock any more; the request was not sent."""


class MovesUnfinished(ClusterError):  # noqa: N818 - replicas that are moved stay where they are
    """Replicas were not moved, or not all of them; the message has the details."""


class RequestRejected(ClusterError):  # noqa: N818
    """A broker answered with an error.

    Args:
        message: The broker's message, in one line.
        code: Kafka's name of the error code, such as `INVALID_CONFIG`.
        hint: What the user can do, in one line.
    """

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code
