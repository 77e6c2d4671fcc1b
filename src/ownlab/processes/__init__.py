"""Processes: reading /proc, running programs with a deadline, and calls in the background.

procfs.py      reads /proc/PID/stat (standard library only: supervisors import it)
runner.py      runs a program and gives up on it after a deadline
background.py  runs a function in a daemon thread and waits for its result with a deadline
"""
