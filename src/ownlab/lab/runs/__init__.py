"""Notebooks that are run without a page."""
