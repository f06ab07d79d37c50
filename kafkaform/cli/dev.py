"""`kafkaform dev`: a real Kafka on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import SectionedGroup
from kafkaform.core.errors import DevClusterError
from kafkaform.core.wording import DEV_DIRECTORY, dev_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from kafkaform.devcluster.cluster import DevCluster
    from kafkaform.devcluster.state import ClusterStatus

_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_COMMAND_GRACE_S = 10

_data = click.option(
    "--data",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEV_DIRECTORY,
    show_default=True,
    metavar="DIR",
    help="The folder for the cluster's data, configuration and logs.",
)
_brokers = click.option(
    "--brokers",
    type=click.IntRange(1, 9),
    metavar="N",
    help="The number of brokers, each in its own rack.  [default: as before, or 1]",
)

_acls = click.option(
    "--acls/--no-acls",
    default=None,
    help="Run the brokers with an authorizer, to try access. Clients of the printed address are super "
    "users.  [default: as before, or no]",
)

_kafka_version = click.option(
    "--kafka-version",
    metavar="N.N[.N]",
    help="The version of Kafka, from 2.8 on, such as 3.9; or one for each broker: 3.9,4.0.  [default: "
    "as before, or the newest]",
)


@click.group(cls=SectionedGroup)
def dev() -> None:
    """Run a real Apache Kafka on this machine, without Docker.

    Needs Java 17 or later. The first use downloads Kafka's jars into the user's cache folder.
    """


@dev.command()
@_brokers
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="P",
    help="The port of the first broker; the others use the next ports.  [default: as before, or free ports]",
)
@_kafka_version
@_acls
@click.option(
    "--registry/--no-registry",
    default=None,
    help="Also run a schema registry (Apicurio), with its schemas in memory.  [default: as before, or none]",
)
@_data
def up(
    brokers: int | None,
    port: int | None,
    kafka_version: str | None,
    acls: bool | None,
    registry: bool | None,
    directory: Path,
) -> None:
    """Start the cluster and print its bootstrap address. Earlier data is kept."""
    from kafkaform.devcluster.cluster import AlreadyRunning, ClusterSpec, DevCluster

    start = time.monotonic()
    try:
        with _single_interruption():
            cluster = DevCluster.start(
                directory,
                ClusterSpec(
                    brokers=brokers,
                    port=port,
                    acls=acls,
                    kafka_version=_split_versions(kafka_version),
                    registry=registry,
                ),
                progress=_tell,
            )
    except AlreadyRunning as running:
        cluster = running.cluster
        _require_options(cluster, brokers, port, acls, _split_versions(kafka_version), registry)
        _tell("it is already running")
    else:
        _tell(f"it answers after {time.monotonic() - start:.1f} s; stop it: {dev_command('down', directory)}")
    if cluster.has_acls:
        _tell(f"accounts log in at {cluster.sasl_bootstrap_servers}: SASL_PLAINTEXT, with SCRAM")
    if cluster.registry_url is not None:
        _tell(f"schema registry: {cluster.registry_url}")
    click.echo(cluster.bootstrap_servers)


@dev.command()
@_data
@click.option("--wipe", is_flag=True, help="Also remove the cluster's data, configuration and logs.")
def down(directory: Path, wipe: bool) -> None:
    """Stop the cluster. Its data is kept for the next `up`, unless --wipe is given."""
    cluster = _load(directory)
    if cluster is None:
        _tell(f"there is no cluster in {directory}")
        return
    with _single_interruption():
        was_running = cluster.stop(graceful=not wipe)
        if wipe:
            cluster.wipe()
    _tell("stopped" if was_running else "it was not running")
    if wipe:
        _tell(f"removed the cluster's files from {directory}")


@dev.command()
@_data
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def status(context: click.Context, directory: Path, form: str) -> None:
    """Show the nodes. Exits 0 if all of them run and answer, else 1."""
    from kafkaform.devcluster.state import DevClusterStatus

    cluster = _load(directory)
    cluster_status = cluster.status() if cluster else None
    if form == "json":
        click.echo(json.dumps(_build_json(directory, cluster_status), indent=2))
    elif cluster_status is None:
        click.echo(f"there is no cluster in {directory}")
    else:
        click.echo(_render_text(cluster_status))
    context.exit(0 if cluster_status is not None and cluster_status.health is DevClusterStatus.RUNNING else 1)


@dev.command("logs")
@_data
@click.option("-n", "--lines", type=click.IntRange(min=0), default=50, show_default=True, metavar="LINES")
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until interrupted.")
@click.option("--node", "node_id", type=int, metavar="ID", help="Show only this node.  [default: all]")
def show_logs(directory: Path, lines: int, follow: bool, node_id: int | None) -> None:
    """Show the last lines of the brokers' logs."""
    from kafkaform.devcluster import processes

    cluster = _load(directory)
    if cluster is None:
        start = dev_command("up", directory)
        raise DevClusterError(f"there is no cluster in {directory}", hint=f"start one: {start}")
    ids = [node_id] if node_id is not None else [node.id for node in cluster.nodes]
    paths = {f"node-{i}": cluster.log_file(i) for i in ids}

    def show(name: str, line: str) -> None:
        click.echo(f"{name} | {line}" if len(paths) > 1 else line)

    if not follow:
        for name, path in paths.items():
            for line in processes.read_tail(path, lines):
                show(name, line)
        return
    readers = {name: processes.NodeLogReader(path) for name, path in paths.items()}
    try:
        for name, reader in readers.items():
            for line in deque(reader.read_new_lines(), maxlen=lines):
                show(name, line)
        for name, line in processes.follow_logs(readers):
            show(name, line)
    except KeyboardInterrupt:
        return


@dev.command(context_settings={"allow_interspersed_args": False})
@_brokers
@_kafka_version
@_acls
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def run(
    context: click.Context,
    brokers: int | None,
    kafka_version: str | None,
    acls: bool | None,
    command: tuple[str, ...],
) -> None:
    """Run a command with a new cluster. Exits with the command's exit code.

    The command finds the cluster's address in KAFKAFORM_BOOTSTRAP_SERVER and BOOTSTRAP_SERVERS.
    """
    from kafkaform.devcluster.cluster import ClusterSpec, DevCluster

    if shutil.which(command[0]) is None:
        raise DevClusterError(
            f"cannot run {command[0]}: no such command", hint="use a command that is in PATH"
        )
    directory = Path(tempfile.mkdtemp(prefix="kafkaform-dev-"))
    keep = False
    with _single_interruption() as shield:
        try:
            cluster = DevCluster.start(
                directory,
                ClusterSpec(brokers=brokers, acls=acls, kafka_version=_split_versions(kafka_version)),
                progress=_tell,
            )
            servers = cluster.bootstrap_servers
            code = _run(command, {"KAFKAFORM_BOOTSTRAP_SERVER": servers, "BOOTSTRAP_SERVERS": servers})
        except DevClusterError:
            keep = any(directory.glob("node-*/*.log"))  # the message names one of them
            raise
        finally:
            shield()
            if started := DevCluster.load(directory):
                started.stop(graceful=False)
            if not keep:
                shutil.rmtree(directory)
    context.exit(code)


def _run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command and return its exit code; terminate it if this process is interrupted."""
    # A Ctrl-C at the terminal also reaches the command, which handles it. A handler that does nothing, unlike
    # an ignored signal, is not inherited by the command.
    signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    try:
        process = subprocess.Popen(command, env={**os.environ, **variables})
        try:
            code = process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(_COMMAND_GRACE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
    except OSError as error:
        raise DevClusterError(f"cannot run {command[0]}: {error.strerror}") from error
    return code if code >= 0 else 128 - code  # as shells report a signal


@contextmanager
def _single_interruption() -> Iterator[Callable[[], None]]:
    """Let the first of Ctrl-C, SIGTERM and SIGHUP unwind the stack, and ignore later ones during the cleanup.

    Yields a function that ignores them from then on, for a cleanup without an interruption.
    """

    def shield() -> None:
        for handled in _INTERRUPTIONS:
            signal.signal(handled, signal.SIG_IGN)

    def interrupt(number: int, _frame: FrameType | None) -> None:
        shield()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    # Signals that were ignored before, such as SIGHUP under nohup, stay ignored.
    before = {s: h for s in _INTERRUPTIONS if (h := signal.getsignal(s)) is not signal.SIG_IGN}
    for handled in before:
        signal.signal(handled, interrupt)
    try:
        yield shield
    finally:
        for handled, handler in before.items():
            signal.signal(handled, handler)


def _load(directory: Path) -> DevCluster | None:
    from kafkaform.devcluster.cluster import DevCluster

    return DevCluster.load(directory)


def _split_versions(given: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in given.split(",")) if given is not None else ()


def _require_options(
    cluster: DevCluster,
    brokers: int | None,
    port: int | None,
    acls: bool | None,
    versions: Sequence[str],
    registry: bool | None,
) -> None:
    """Refuse a running cluster with nodes that do not answer, or with other options."""
    from kafkaform.devcluster.releases import resolve_version
    from kafkaform.devcluster.state import DevClusterStatus

    status = cluster.status()
    advice = f"stop it, then start it again: {dev_command('down', cluster.directory)}"
    if status.health is not DevClusterStatus.RUNNING:
        silent = [str(node.id) for node in status.nodes if not node.responds]
        raise DevClusterError(
            f"the cluster in {cluster.directory} is {status.health}: no answer from node {', '.join(silent)}",
            hint=advice,
        )
    if brokers is not None and brokers != len(cluster.nodes):
        raise DevClusterError(
            f"the cluster that runs in {cluster.directory} has --brokers {len(cluster.nodes)}, not {brokers}",
            hint="use another --data, or remove the cluster: "
            f"{dev_command('down', cluster.directory, '--wipe')}",
        )
    if port is not None and port != cluster.nodes[0].port:
        raise DevClusterError(
            f"the cluster that runs in {cluster.directory} has --port {cluster.nodes[0].port}, not {port}",
            hint=advice,
        )
    if acls is not None and acls != cluster.has_acls:
        now, wanted_option = ("--acls", "--no-acls") if cluster.has_acls else ("--no-acls", "--acls")
        raise DevClusterError(
            f"the cluster that runs in {cluster.directory} has {now}, not {wanted_option}", hint=advice
        )
    if registry is not None and registry != (cluster.registry_url is not None):
        verb = "has no" if registry else "has a"
        raise DevClusterError(
            f"the cluster that runs in {cluster.directory} {verb} schema registry", hint=advice
        )
    running = [node.kafka_version for node in cluster.nodes]
    wanted = [resolve_version(version) for version in versions] or running
    if wanted != running and wanted * len(running) != running:
        raise DevClusterError(
            f"the cluster that runs in {cluster.directory} has --kafka-version"
            f" {','.join(dict.fromkeys(running))}, not {','.join(versions)}",
            hint=advice,
        )


def _render_text(status: ClusterStatus) -> str:
    lines = [f"{status.health}  {status.bootstrap_servers}  (cluster {status.cluster_id})"]
    for node in status.nodes:
        state = "stopped" if node.pid is None else "running" if node.responds else "no answer"
        process = "" if node.pid is None else f"  pid {node.pid}"
        where = f"{node.address}  {node.rack}  Kafka {node.kafka_version}"
        lines.append(f"  node {node.id}  {where}  {state}{process}  {node.log}")
    return "\n".join(lines)


def _build_json(directory: Path, status: ClusterStatus | None) -> dict[str, object]:
    if status is None:
        return {"state": "absent", "directory": str(directory.absolute()), "nodes": []}
    return {
        "state": str(status.health),
        "directory": str(directory.absolute()),
        "cluster_id": status.cluster_id,
        "bootstrap_servers": status.bootstrap_servers,
        "nodes": [
            {
                "id": node.id,
                "address": node.address,
                "rack": node.rack,
                "kafka_version": node.kafka_version,
                "pid": node.pid,
                "answers": node.responds,
                "log": str(node.log),
            }
            for node in status.nodes
        ],
    }


def _tell(line: str) -> None:
    click.echo(line, err=True)
