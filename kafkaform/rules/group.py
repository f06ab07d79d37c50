"""Rules about group."""
