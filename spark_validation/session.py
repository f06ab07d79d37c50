"""A Spark session from its start to its end: on this machine, on a cluster, or through Spark Connect."""

from __future__ import annotations

import importlib.util
import logging
import re
import signal
import socket
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spark_validation import jvm
from spark_validation.configuration import SESSION_SETTINGS, SessionSettings, build_configuration, zip_package
from spark_validation.errors import SparkMissing, SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession


PATIENCE_S = 60.0
_PAUSE_S = 0.2


def wait_for_executors(spark: SparkSession) -> None:
    """Wait for a first executor, unless they are allocated dynamically.

    Raises:
        SparkUnavailable: No executor started.
    """
    context = spark.sparkContext
    # Executors may then only be allocated once tasks wait for them.
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    tracker = context._jsc.sc().statusTracker()  # noqa: SLF001 - PySpark's own tracker lacks executors
    deadline = time.monotonic() + PATIENCE_S
    # The driver counts as one.
    while len(tracker.getExecutorInfos()) < 2:
        if time.monotonic() > deadline:
            raise SparkUnavailable(
                f"{context.master} started no executor within {PATIENCE_S:.0f} s",
                hint="check that its workers run and have cores and memory left"
                " (`--spark-conf spark.executor.memory=512m` asks for less), and that they reach this"
                " machine (`--spark-conf spark.driver.host=ADDRESS`)",
            )
        time.sleep(_PAUSE_S)


_RESPONSE_TIMEOUT_S = 10.0
# The default of spark.connect.grpc.binding.port.
_CONNECT_PORT = 15002
_KINDS = "local[N], spark://host:port, yarn, or k8s://https://host:port"
_LOCAL = re.compile(r"local(\[(\d+|\*)(,\d+)?\]|-cluster\[.*\])?")


def check_master(url: str) -> None:
    """Check that a master's URL is valid, and that its address answers.

    Raises:
        SparkUnavailable: It is not a master's URL, or nothing listens at the address.
    """
    if url == "yarn" or _LOCAL.fullmatch(url):
        return
    # A standalone cluster with standby masters lists them with commas: one that answers is enough.
    if url.startswith("spark://"):
        addresses = [
            _address(f"spark://{server}", 7077) for server in url.removeprefix("spark://").split(",")
        ]
    elif url.startswith("k8s://"):
        api = url.removeprefix("k8s://")
        addresses = [_address(api if "://" in api else f"https://{api}", 443)]
    else:
        raise SparkUnavailable(f"{url!r} is not the URL of a Spark master", hint=f"give {_KINDS}")
    if any(address is None for address in addresses):
        raise SparkUnavailable(f"{url!r} is not the URL of a Spark master", hint=f"give {_KINDS}")
    _reach([address for address in addresses if address], f"the Spark master {url}")


def check_remote(url: str) -> None:
    """Check that a Spark Connect URL is valid, and that its address answers; never repeat its token.

    Raises:
        SparkUnavailable: It is not such a URL, or nothing listens at the address.
    """
    address = _address(url, _CONNECT_PORT) if url.startswith("sc://") else None
    if address is None:
        raise SparkUnavailable("--remote is not a Spark Connect URL", hint="give sc://host:port")
    _reach([address], f"the Spark Connect server at {address[0]}:{address[1]}")


def _address(url: str, port: int) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or port
    except ValueError:
        return None
    return (host, port) if host else None


def _reach(addresses: Iterable[tuple[str, int]], what: str) -> None:
    why = ""
    for address in addresses:
        try:
            socket.create_connection(address, timeout=_RESPONSE_TIMEOUT_S).close()
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return
    raise SparkUnavailable(f"{what} cannot be reached: {why}", hint="check its address, and that it runs")


_NEEDED = ("pyspark", "confluent_kafka", "numpy", "pandas", "pyarrow")
_CONNECT = {"grpc": "grpcio", "grpc_status": "grpcio-status", "google.rpc": "googleapis-common-protos"}
_STOP_S = 15.0
_START_S = {"local": 60.0, "spark": 30.0}
# YARN and Kubernetes may let an application wait in a queue.
_MAX_START_S = 300.0


@contextmanager
def start(settings: SessionSettings) -> Iterator[SparkSession]:
    """Start a session, and stop it and its JVM however the body ends.

    Raises:
        SparkMissing: A Python package is not installed.
        SparkUnavailable: Java does not start, or the master does not answer.
    """
    missing = [name for name in _NEEDED if not _installed(name)]
    if missing:
        raise SparkMissing(
            f"counting keys needs Spark; not installed: {', '.join(missing)}",
            hint="`pip install 'kafkaform[spark]'`",
        )
    with ExitStack() as stack:
        stack.enter_context(_quiet(debug=settings.debug))
        # Files that an ended JVM left open may not be removable, which does not matter.
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="kafkaform-spark-", ignore_cleanup_errors=True)
            )
        ).resolve()
        if settings.remote is not None:
            yield stack.enter_context(_connect_session(settings.remote, settings, folder))
        else:
            yield stack.enter_context(_own_session(settings, folder))


def _installed(name: str) -> bool:
    try:
        # For a dotted name, find_spec imports the parent, which may be missing itself.
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@contextmanager
def _quiet(*, debug: bool) -> Iterator[None]:
    """Keep PySpark's own messages off the terminal.

    Py4J logs its whole traffic at the level of debugging, and the end of a JVM, which is intended here, as an
    error.
    """
    logger = logging.getLogger("py4j")
    before = logger.level
    logger.setLevel(logging.WARNING if debug else logging.CRITICAL)
    try:
        with hide_pandas_warning():
            yield
    finally:
        logger.setLevel(before)


@contextmanager
def hide_pandas_warning() -> Iterator[None]:
    """Hide PySpark 4.3's warning about pandas 3, which only passes Arrow batches on here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextmanager
def _own_session(settings: SessionSettings, folder: Path) -> Iterator[SparkSession]:
    """Start a session whose driver is a JVM of its own."""
    check_master(settings.effective_master)
    wanted = build_configuration(settings, folder)
    (folder / "local").mkdir()
    with jvm.set_environment(settings, folder), jvm.start_gateway(settings, wanted, folder) as gateway:
        spark = _begin_session(gateway, wanted, settings, folder)
        try:
            if not settings.local:
                spark.sparkContext.addPyFile(str(zip_package(folder)))
                wait_for_executors(spark)
            yield spark
        finally:
            _stop(spark)


def _begin_session(
    gateway: Any, wanted: dict[str, str], settings: SessionSettings, folder: Path
) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    interrupted = signal.getsignal(signal.SIGINT)
    patience = _START_S.get(settings.effective_master.partition(":")[0].partition("[")[0], _MAX_START_S)
    late = threading.Event()

    def kill_gateway() -> None:
        late.set()
        gateway.proc.kill()

    # A call into the JVM has no timeout: only the end of the process makes it return.
    timer = threading.Timer(patience, kill_gateway)
    timer.start()
    try:
        SparkContext(conf=SparkConf(loadDefaults=False).setAll(list(wanted.items())), gateway=gateway)
        return SparkSession.builder.getOrCreate()
    except (Py4JError, OSError) as error:
        master = settings.effective_master
        if late.is_set():
            raise SparkUnavailable(
                f"the Spark master {master} did not answer within {patience:.0f} s",
                hint="check that it runs Spark 4 and reaches this machine; --debug shows Spark's log",
            ) from None
        raise SparkUnavailable(
            f"Spark did not start on {master}{_cause(error) or jvm.find_log_error(folder)}",
            hint="--debug shows Spark's log",
        ) from error
    finally:
        timer.cancel()
        if threading.current_thread() is threading.main_thread():
            # PySpark's handler of Ctrl-C calls the JVM in the middle of other calls to it.
            signal.signal(signal.SIGINT, interrupted)


def _cause(error: Exception) -> str:
    """Return the innermost Java exception in one line, as the end of a sentence."""
    from spark_validation.errors import java_causes

    causes = java_causes(error)
    return f": {causes[-1].line}" if causes else ""


def _stop(spark: SparkSession) -> None:
    """Stop a session, from a thread of its own: an interrupted call makes this one's connection unusable."""
    # PySpark's server of accumulators, which is not used here, takes a second to end: it is not waited for,
    # and by then its peer is gone, for which it would print a traceback.
    server: Any = spark.sparkContext._accumulatorServer  # noqa: SLF001
    server.handle_error = lambda *_: None
    server.shutdown = threading.Thread(target=server.shutdown, daemon=True).start

    def stop() -> None:
        from py4j.protocol import Py4JError

        try:
            spark.stop()
        except (Py4JError, OSError) as error:
            logging.getLogger(__name__).debug("Spark's JVM ended before it was stopped: %s", error)

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    thread.join(_STOP_S)


@contextmanager
def _connect_session(url: str, settings: SessionSettings, folder: Path) -> Iterator[SparkSession]:
    """Connect to the driver of a Spark Connect server."""
    hint = f"`pip install 'pyspark[connect]=={metadata.version('pyspark')}'`"
    missing = [package for name, package in _CONNECT.items() if not _installed(name)]
    if missing:
        raise SparkMissing(f"Spark Connect needs {', '.join(missing)}", hint=hint)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    check_remote(url)
    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
    except ImportError as error:  # of a package that only some versions need, or that is too old
        raise SparkMissing(f"Spark Connect: {error}", hint=hint) from error
    except PySparkException as error:
        raise SparkUnavailable(f"Spark Connect refused the session: {error}", hint=None) from error
    try:
        for name, value in {**SESSION_SETTINGS, **settings.conf}.items():
            spark.conf.set(name, value)
        spark.addArtifacts(str(zip_package(folder)), pyfile=True)
        yield spark
    finally:
        spark.stop()
