"""Text in files that Hadoop knows: HDFS, object stores, this machine's."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from spark_validation.errors import JobFailed
from spark_validation.translation import chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_CONTEXT = "org.apache.hadoop.fs.UnsupportedFileSystemException"


def write(spark: SparkSession, path: str, text: str) -> None:
    """Write a file, or put it in another one's place: whoever looks sees the old one or the new one, whole.

    Args:
        spark: Of a JVM that can be reached.
        path: A path or URI; without a scheme it is of the file system that Hadoop is configured for.
        text: Written as UTF-8.

    Raises:
        Py4JJavaError: The file system refused.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's documented way to the JVM's own classes
    hadoop = jvm.org.apache.hadoop
    configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    target = hadoop.fs.Path(path)
    system = hadoop.fs.FileSystem.newInstance(target.toUri(), configuration)
    try:
        # Local files would have a companion with their checksum, which is nobody's report.
        system.setWriteChecksum(False)
        target = system.makeQualified(target)
        unfinished = hadoop.fs.Path(target.getParent(), f".{target.getName()}.{uuid.uuid4().hex[:12]}")
        try:
            stream = system.create(unfinished)
            try:
                stream.write(bytearray(text.encode("utf-8")))
            finally:
                stream.close()
            _replace(spark, system, unfinished, target)
        finally:
            if system.exists(unfinished):
                system.delete(unfinished, False)
    finally:
        system.close()


def _replace(spark: SparkSession, system: Any, source: Any, target: Any) -> None:
    """Rename a file over another one: in one step wherever the file system can."""
    jvm: Any = spark._jvm  # noqa: SLF001
    fs = jvm.org.apache.hadoop.fs
    rename = getattr(fs, "Options$Rename")
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    options = gateway.new_array(rename, 1)
    options[0] = rename.OVERWRITE
    try:
        context = fs.FileContext.getFileContext(target.toUri(), system.getConf())
        context.rename(source, target, options)
    except Py4JJavaError as error:
        if not any(_NO_CONTEXT in cause.names for cause in chain(error)):
            raise
        system.delete(target, False)
        if not system.rename(source, target):
            raise JobFailed(f"{source} could not be renamed to {target}") from error
