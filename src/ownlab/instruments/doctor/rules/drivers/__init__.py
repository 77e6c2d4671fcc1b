"""Rules on the driver: its version, its kernel module, its library, its start."""
