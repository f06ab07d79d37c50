"""The messages of Kafka's protocol: layouts of requests and responses.

The three largest responses (Metadata, DescribeConfigs, ListOffsets) have hand-written readers.
"""
