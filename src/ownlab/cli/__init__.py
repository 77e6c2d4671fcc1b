"""The command line: the table of commands, shared options, and the way from errors to exit codes.

Each command lives with its feature (`instruments/fit/cli.py`, `lab/cli/up.py`, …).
"""
