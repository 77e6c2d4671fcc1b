"""Notebooks as files, and what their runtimes' journals add to them."""
