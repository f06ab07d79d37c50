"""The execution and verification of plans."""
