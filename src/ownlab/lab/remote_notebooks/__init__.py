"""remote_notebooks."""
