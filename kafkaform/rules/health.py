"""Which of the rules about health speak against moving data."""

CRITICAL = frozenset({"KF301", "KF303", "KF304", "KF305"})
"""While one of these trips, a change that moves or destroys data can cost the last good copy."""
