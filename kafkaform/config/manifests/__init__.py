"""Manifests: loading, with the location of every problem, and editing in place."""
