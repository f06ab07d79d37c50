"""A real Apache Kafka cluster on this machine for development and tests, without Docker or Maven.

Start with `cluster.DevCluster`. The brokers are KRaft nodes (broker and controller in one process)
that listen on the loopback interface only.
"""
