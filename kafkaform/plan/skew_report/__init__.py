"""Skew reports: read, judged against the manifests, and beside a plan."""

from kafkaform.plan.skew_report.reading import parse_skew_report, read_skew_report, require_cluster
from kafkaform.plan.skew_report.verdict import is_beyond_policy, judged, skew_diagnostics

__all__ = [
    "is_beyond_policy",
    "judged",
    "parse_skew_report",
    "read_skew_report",
    "require_cluster",
    "skew_diagnostics",
]
