"""PySpark validation of how the keys of a topic fall on its partitions."""
