"""kafkaform with the third kind, on a cluster in memory: `python -m tests.support.client_quota`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from unittest.mock import patch

from kafkaform.cluster.testing.memory import MemoryCluster
from kafkaform.core.model import ResourceRef
from tests.support.client_quota import AlterQuotas, registered

with registered():
    # Not before: the command line asks for the kinds when it is imported.
    from kafkaform.cli.main import run
    from kafkaform.cli.session import Session

    class Connected(MemoryCluster):
        """As a session takes it: everything is at hand already."""

        def prefetch(self) -> Callable[[ResourceRef], None]:
            return lambda _: None

        def begin_audit(self) -> None:
            pass

    cluster = Connected()
    quotas = {"producer_byte_rate": "1000", "consumer_byte_rate": "2000000"}
    cluster.execute([AlterQuotas(ResourceRef("ClientQuota", "user=alice"), quotas)])
    with patch.object(Session, "cluster", lambda _: cluster):
        sys.exit(run(sys.argv[1:]))
