"""Git and GitHub."""
