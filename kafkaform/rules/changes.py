"""Rules about changes."""
