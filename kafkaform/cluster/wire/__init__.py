"""Messages of Kafka's protocol as bytes: layouts of requests and answers.

The two large answers (Metadata and DescribeConfigs) have readers tuned by hand.
"""
