"""The process that owns a kernel: it holds the lease, passes messages on, watches limits, and ends everything cleanly."""
