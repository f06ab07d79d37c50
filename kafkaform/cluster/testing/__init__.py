"""A cluster in memory that answers as real brokers do: for tests, of kafkaform and of whoever uses it."""
