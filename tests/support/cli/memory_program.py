"""kafkaform on a cluster in memory, in a process of its own: `python -m tests.support.cli.memory_program`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from unittest.mock import patch

from kafkaform.cli.main import run
from kafkaform.cli.session import Session
from kafkaform.core.model import ResourceRef
from kafkaform.resources.client_quota.operations import AlterQuota
from kafkaform.resources.user.operations import SetCredentials
from tests.support.memory_cluster.memory import MemoryCluster


class Connected(MemoryCluster):
    """As a session takes it: everything is at hand already."""

    def prefetch(self) -> Callable[[ResourceRef], None]:
        return lambda _: None

    def begin_audit(self) -> None:
        pass


if __name__ == "__main__":
    cluster = Connected()
    quotas = {"producer_byte_rate": "1000", "consumer_byte_rate": "2000000"}
    cluster.execute([AlterQuota(ResourceRef("ClientQuota", "user=alice"), quotas)])
    os.environ["LIVE"] = "s3cr3t-in-memory"
    credential = {"scram.SCRAM-SHA-512": "iterations=4096,password=${env:LIVE}"}
    cluster.execute([SetCredentials(ResourceRef("User", "checkout"), credential)])
    with patch.object(Session, "cluster", lambda _: cluster):
        sys.exit(run(sys.argv[1:]))
