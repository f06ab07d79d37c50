"""PySpark validation of how the keys of a topic fall on its partitions."""

__version__ = "0.1.0"
