"""Kafka clusters, real and in memory, behind one protocol: the only place that imports a Kafka client."""
