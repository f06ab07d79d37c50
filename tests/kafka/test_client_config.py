"""Client settings of a group: what is exported, and that the clients take it."""

import subprocess
from pathlib import Path

import pytest

from kafkaform.config.client_config import render_settings
from kafkaform.core.kafka_configs import refused_by_client
from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.jars.java import find_java
from tests.support.client_settings import EVERYTHING, build_group

JAVA_CLIENT = """\
import java.io.FileReader;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Start {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties given = new Properties();
            given.load(new FileReader(file));
            given.put("bootstrap.servers", "127.0.0.1:1");
            new KafkaConsumer<>(given, new ByteArrayDeserializer(), new ByteArrayDeserializer()).close();
            System.out.println(given.getProperty("group.id"));
        }
    }
}
"""


@pytest.mark.nightly("a Java program is compiled and run")
def test_java_consumer_accepts_generated_properties(tmp_path: Path) -> None:
    source = tmp_path / "Start.java"
    source.write_text(JAVA_CLIENT, "utf-8")
    consumer = {n: v for n, v in EVERYTHING.items() if n not in refused_by_client("consumer")}
    consumer["group.remote.assignor"] = "uniform"
    names = ["classic é \t=", "consumer"]
    groups = [build_group(EVERYTHING, "classic", names[0]), build_group(consumer, "consumer", names[1])]
    files = [tmp_path / f"{number}.properties" for number in range(len(groups))]
    for file, declared in zip(files, groups, strict=True):
        file.write_text(render_settings(declared, "properties"), "ascii")
    classpath = ":".join(map(str, fetch_kafka_classpath()))
    done = subprocess.run(
        [
            find_java().path,
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            "-cp",
            classpath,
            source,
            *files,
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == names
