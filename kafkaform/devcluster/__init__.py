"""A real Apache Kafka on this machine, for trying things out and for tests: no Docker, no Maven.

Start with `cluster.DevCluster`. The brokers are KRaft nodes (broker and controller in one process)
that listen on the loopback interface only.
"""
