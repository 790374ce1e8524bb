"""Issues, releases and discussions of a GitHub or GitLab project."""
