"""Git repositories and GitHub."""
