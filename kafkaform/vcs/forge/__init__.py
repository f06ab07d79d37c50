"""The work of jobs on GitHub and GitLab: comments, issues, and the download of reviewed plans.

For GitHub, PyGithub is needed (the extra `github`), and only `kafkaform ci` imports those modules.
"""
