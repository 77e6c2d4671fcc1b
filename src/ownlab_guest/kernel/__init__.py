"""What runs in a kernel's own process: its start, and its end."""
