"""Making a plan, and judging whether it may be applied."""
