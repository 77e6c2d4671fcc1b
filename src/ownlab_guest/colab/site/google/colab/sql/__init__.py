"""BigQuery: not here; each function says what to use instead."""
