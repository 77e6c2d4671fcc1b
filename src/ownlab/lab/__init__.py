"""Where work runs and is kept."""
