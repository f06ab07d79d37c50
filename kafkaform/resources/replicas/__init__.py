"""Replicas of resources on brokers: facts, placement, and the cost of copies. They are not a kind."""
