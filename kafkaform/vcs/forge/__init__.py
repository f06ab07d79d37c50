"""What workflows do on GitHub: one comment on a pull request, one issue, and the plan that was reviewed.

Imported by `kafkaform github` only, since it needs PyGithub (the extra `github`).
"""
