"""The audit record of applies: written before and after each change, and read back."""
