"""The record of what applies did: written before and after, read back, and turned into manifests again."""
