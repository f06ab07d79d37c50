"""What an analysis of key skew needs to know of a cluster and of manifests, and the reports of earlier ones.

Nothing here imports Spark: `kafkaform.cli.skew` brings the two together.
"""
