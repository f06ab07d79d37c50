"""The work of workflows on GitHub: comments on pull requests, issues, and the download of reviewed plans.

Only `kafkaform github` imports this package, as it needs PyGithub (the extra `github`).
"""
