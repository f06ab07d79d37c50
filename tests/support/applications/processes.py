"""Java applications as processes: Kafka Streams, and members of share groups."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkaform.core.files import get_cache_directory
from kafkaform.devcluster.jars.cache import Jar, download, fetch_kafka_classpath
from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.releases import KAFKA_VERSION

APPLICATION = Path(__file__).with_name("Application.java")
STREAMS = Jar(
    f"org/apache/kafka/kafka-streams/{KAFKA_VERSION}/kafka-streams-{KAFKA_VERSION}.jar",
    "bd73f3805e116f711e8456ee89a8a5b43ff5dcf5a5bb865afae29deae89e7c4b",
    2_277_950,
)
"""The jar of Kafka Streams, which brokers do without; downloaded once."""


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
    cache = get_cache_directory()
    if not (cache / STREAMS.name).exists():
        download(STREAMS, cache)
    classpath = os.pathsep.join(map(str, [*fetch_kafka_classpath(), cache / STREAMS.name]))
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
