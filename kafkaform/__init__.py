"""Declarative, GitOps management of Apache Kafka topics and consumer groups."""

__version__ = "0.1.0"
