"""Plan of 1,000, 5,000 and 10,000 topics against the raw admin calls, in one run: `make bench`.

Each topic has three partitions and one declared config, and a manifest file of its own; every tenth has
drifted. The raw calls are confluent-kafka's list_topics and describe_configs of the same topics, in a
process of their own like the plan, so that both pay for their imports and connections. The same plan is made
over SASL_SSL, too, with PLAIN and with SCRAM-SHA-512. Rounds alternate between them, and the medians are
compared: the machine's other work hits all of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rounds import KAFKAFORM, RAW, compared, timed
from benchmarks.scene import build, write_manifests
from benchmarks.table import tell
from kafkaform.devcluster.cluster import DevCluster
from tests.support.certificates import self_signed

if TYPE_CHECKING:
    from collections.abc import Sequence

CALLS = """
import sys
from confluent_kafka.admin import AdminClient, ConfigResource
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
names = [name for name in admin.list_topics(timeout=120).topics if name.startswith(sys.argv[2])]
asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
futures = admin.describe_configs(asked, request_timeout=600)
entries = [future.result() for future in futures.values()]
assert len(entries) == int(sys.argv[3]), len(entries)
"""

YARDSTICK = "import confluent_kafka.admin"
"""The same work everywhere, by which seconds of two machines can be compared."""

HEADINGS = (
    "topics",
    "plan s",
    "raw s",
    "ratio",
    "PLAIN s",
    "ratio",
    "SCRAM s",
    "ratio",
    "CPU s",
    "raw CPU s",
    "peak MB",
    "raw MB",
    "validate s",
    "CPU s",
)


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, nargs="+", default=[1_000, 5_000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for count in options.topics:
        with (
            tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
            DevCluster.start(
                Path(folder) / "kafka",
                heap_mb=3072,
                full_jit=True,
                sasl_users={USER: PASSWORD},
                properties=secured_listener(Path(folder)),
                format_args=("--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"),
            ) as kafka,
        ):
            build(kafka.bootstrap_servers, count)
            manifests = write_manifests(Path(folder) / "topics", count)
            config = write_config(Path(folder), kafka)
            rows.append(measure(kafka.bootstrap_servers, config, manifests, count, options.rounds))
    tell("plan", HEADINGS, *rows)
    print(f"kafkaform --help: {_median([*KAFKAFORM, '--help'], options.rounds):.3f} s")
    # What says how fast the machine is: seconds of another one are to be seen beside it.
    print(f"import confluent_kafka.admin: {_median([*RAW, YARDSTICK], options.rounds):.3f} s")
    return 0


def _median(command: Sequence[str], rounds: int) -> float:
    return statistics.median(timed(command).seconds for _ in range(rounds))


USER, PASSWORD = "bench", "bench-password"
MECHANISMS = {"plain": "PLAIN", "scram": "SCRAM-SHA-512"}
"""SASL mechanisms by the names of the clusters in kafkaform.yaml that log in with them."""


def secured_listener(folder: Path) -> dict[str, str]:
    """Properties of a broker that takes logins by SASL over TLS, with a certificate made for it."""
    self_signed(folder)
    store = folder / "store.pem"
    store.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL",
        "listener.name.sasl.ssl.keystore.type": "PEM",
        "listener.name.sasl.ssl.keystore.location": str(store),
        "allow.everyone.if.no.acl.found": "true",
    }


def write_config(folder: Path, kafka: DevCluster) -> Path:
    """A kafkaform.yaml with both listeners of the broker as clusters, so that both plans read the same."""
    path = folder / "kafkaform.yaml"
    path.write_text(
        "apiVersion: kafkaform/v1\nkind: Config\nclusters:\n"
        f"  plaintext:\n    client: {{bootstrap.servers: '{kafka.bootstrap_servers}'}}\n"
        + "".join(
            f"  {name}:\n    client:\n"
            f"      bootstrap.servers: {kafka.sasl_bootstrap_servers}\n"
            f"      security.protocol: SASL_SSL\n      sasl.mechanism: {mechanism}\n"
            f"      sasl.username: {USER}\n      sasl.password: {PASSWORD}\n"
            f"      ssl.ca.location: {folder / 'certificate.pem'}\n"
            for name, mechanism in MECHANISMS.items()
        )
    )
    return path


def measure(address: str, config: Path, manifests: Path, count: int, rounds: int) -> dict[str, float]:
    """A row of the table."""
    plan = [*KAFKAFORM, "plan", str(manifests), "--config", str(config)]
    plan += ["--format", "json", "--detailed-exitcode", "--no-strict", "--cluster"]
    calls = [*RAW, CALLS, address, "bench.", str(count)]
    validate = [*KAFKAFORM, "validate", str(manifests)]
    taken = compared(
        {
            "plan": lambda _: timed([*plan, "plaintext"], expect=2),
            "plain": lambda _: timed([*plan, "plain"], expect=2),
            "scram": lambda _: timed([*plan, "scram"], expect=2),
            "raw": lambda _: timed(calls),
            "validate": lambda _: timed(validate),
        },
        rounds,
    )
    plan_s, raw_s = taken["plan"].seconds, taken["raw"].seconds
    return {
        "topics": count,
        "plan": plan_s,
        "raw": raw_s,
        "ratio": plan_s / raw_s,
        "sasl_plain": taken["plain"].seconds,
        "sasl_plain_ratio": taken["plain"].seconds / plan_s,
        "sasl_scram": taken["scram"].seconds,
        "sasl_scram_ratio": taken["scram"].seconds / plan_s,
        "cpu": taken["plan"].cpu,
        "raw_cpu": taken["raw"].cpu,
        "peak": taken["plan"].peak,
        "raw_peak": taken["raw"].peak,
        "validate": taken["validate"].seconds,
        "validate_cpu": taken["validate"].cpu,
    }


if __name__ == "__main__":
    sys.exit(main())
