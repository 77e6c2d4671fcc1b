"""Engines: what starts runs, on this machine or on a cluster.

interface.py   the four methods that every engine has, and the records that they exchange
registry.py    the table of engines, from the entry points of installed packages
job_end.py     how a run has ended, from the file that engines leave in its folder
interpreter.py which interpreter runs a script
local/         this machine: a supervisor with leases of the store. The default
slurm/         a cluster, by Slurm's own commands
"""
