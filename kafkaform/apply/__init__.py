"""Carrying a plan out, and proving it."""
