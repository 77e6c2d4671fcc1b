"""The machine's records of runtimes, leases and usage: SQLite in WAL mode, locks, and nothing but the standard library."""
