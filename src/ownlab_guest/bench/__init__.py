"""Measures how fast a machine is: `run.py` is started, the other files each measure one kind of thing."""
