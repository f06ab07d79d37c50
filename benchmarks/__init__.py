"""Benchmarks that compare measurements within one run; not tests."""
