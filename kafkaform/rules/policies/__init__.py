"""A project's own rules, written in kafkaform.yaml: what names, labels and fields must be like."""

from kafkaform.rules.policies.reading import CODE_PREFIX, read_policies

__all__ = ["CODE_PREFIX", "read_policies"]
