"""A real Kafka cluster: reading it, and changing it."""
