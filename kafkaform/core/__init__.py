"""The data of all rooms: states, changes, plans, errors, units, and the catalogue of Kafka's configs."""
