"""A lab seen from outside: its record and its lock, its watchdog, its opening and its end. Knows nothing of Jupyter."""
