"""What all rooms speak of: states, changes, plans, errors, units, and what Kafka knows of its configs."""
