"""The messages of Kafka's protocol: layouts of requests and answers.

The three largest answers (Metadata, DescribeConfigs, ListOffsets) have hand-written readers.
"""
