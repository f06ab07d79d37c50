"""Java applications as processes: Kafka Streams, and members of share groups."""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from kafkaform.core.files import get_cache_directory, replace
from kafkaform.devcluster.jars.cache import fetch_kafka_classpath, get_repository
from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.releases import KAFKA_VERSION

APPLICATION = Path(__file__).with_name("Application.java")
STREAMS_SHA256 = "bd73f3805e116f711e8456ee89a8a5b43ff5dcf5a5bb865afae29deae89e7c4b"


def fetch_streams_jar() -> Path:
    """The jar of Kafka Streams, which brokers do without; downloaded once."""
    name = f"kafka-streams-{KAFKA_VERSION}.jar"
    path = get_cache_directory() / name
    if not path.exists():
        address = f"{get_repository()}/org/apache/kafka/kafka-streams/{KAFKA_VERSION}/{name}"
        with urlopen(address, timeout=60) as answer:
            content = answer.read()
        assert hashlib.sha256(content).hexdigest() == STREAMS_SHA256, "it is not the jar that is known"
        replace(path, content)
    return path


@contextmanager
def run_application(file: Path, *arguments: str, **properties: str) -> Iterator[subprocess.Popen[str]]:
    """An application at work: see Application.java.

    Args:
        file: The client properties that it has already.
        arguments: Its other arguments.
        properties: Further client properties, with underscores for dots.
    """
    lines = (f"{name.replace('_', '.')}={value}\n" for name, value in properties.items())
    with file.open("a") as opened:
        opened.writelines(lines)
    classpath = os.pathsep.join(map(str, [*fetch_kafka_classpath(), fetch_streams_jar()]))
    java = (find_java().path, "-Xmx256m", "-cp", classpath)
    with subprocess.Popen(
        (*java, APPLICATION, file, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
