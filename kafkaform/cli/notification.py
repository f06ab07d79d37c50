"""`--notify`: a POST to the webhook of the cluster on drift, and on an apply that failed."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

import click

from kafkaform import __version__
from kafkaform.audit.record import detect_author
from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.output import tell
from kafkaform.config.client_properties import read_secret_file
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.core.http import send_request
from kafkaform.core.printable import clipped
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.cli.session import Session
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.config.webhook import WebhookAddress

FORMAT_VERSION = 1
_TIMEOUT_S = 10.0
_MAX_SUMMARY_LENGTH = 1_000
"""The most characters of a summary."""

notify_option = click.option(
    "--notify",
    is_flag=True,
    help="Report failures, and drift, to the cluster's webhook (`notify:` in kafkaform.yaml).",
)


class NotifiedEvent(StrEnum):
    """The reason of a notification."""

    DRIFT = "drift"
    DRIFT_UNKNOWN = "drift_unknown"
    APPLY_FAILED = "apply_failed"


class Notifier(Value):
    """The webhook of a cluster, and what all notifications of one command share.

    Attributes:
        webhook: The address; None without `--notify`: nothing is sent.
        commit: The Git commit of the manifests; None if it is not known.
    """

    webhook: WebhookAddress | None
    target: ClusterSettings
    environment: str | None
    commit: str | None = None

    @classmethod
    def prepare(cls, session: Session, commit: str | None = None, *, wanted: bool) -> Notifier:
        """Read the webhook's address before any work is done.

        Raises:
            UsageError: The cluster has no webhook.
            InvalidInput: A secret of the webhook is missing.
        """
        target = session.require_cluster()
        if not wanted:
            return cls(None, target, session.environment)
        if target.notify is None:
            raise UsageError(
                f"--notify: the cluster {target.name} has no webhook",
                hint="set `notify: {url: ${env:NAME}}` for it in kafkaform.yaml",
            )
        webhook = target.notify.resolve(os.environ, read_secret_file)
        return cls(webhook, target, session.environment, commit)

    @contextmanager
    def report_errors(self, event: NotifiedEvent) -> Iterator[None]:
        """Send a notification if an error ends the work within, and raise it again."""
        try:
            yield
        except UsageError:
            raise  # the person at the command line made it
        except KafkaformError as error:
            problems = error.problems if isinstance(error, InvalidInput) else ()
            self.send(event, ": ".join((error.message, *map(str, problems[:1]))))
            raise

    def send(self, event: NotifiedEvent, summary: str) -> None:
        """Post a notification; a failure is printed, and changes neither the result nor the exit code.

        Args:
            summary: The result in a sentence; secrets of this run are removed.
        """
        if self.webhook is None:
            return
        context = click.get_current_context(silent=True)
        handler = context.find_object(ErrorHandler) if context is not None else None
        document = {
            "format_version": FORMAT_VERSION,
            "event": event.value,
            "cluster": self.target.name,
            "environment": self.environment,
            "commit": self.commit,
            "summary": clipped(
                handler.redact(summary) if handler is not None else summary, _MAX_SUMMARY_LENGTH
            ),
            "link": detect_author(os.environ).url,
        }
        headers = {"Content-Type": "application/json", "User-Agent": f"kafkaform/{__version__}"}
        try:
            response = send_request(
                "POST",
                self.webhook.url,
                _TIMEOUT_S,
                body=json.dumps(document).encode(),
                headers={**headers, **self.webhook.headers},
            )
        except OSError as error:
            tell(f"the notification was not sent: {error}")
            return
        # The body of the response is not printed: it may repeat secrets of the request.
        if not 200 <= response.status < 300:
            tell(f"the notification was not accepted: HTTP {response.status}")
