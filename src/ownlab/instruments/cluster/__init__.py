"""`ownlab cluster write`: the files of a Slurm cluster for a group with bare machines. ownlab administers nothing: people run the commands.

cli.py         the command
plan.py        from saved machines to the nodes of a cluster
slurm_files.py the nodes as slurm.conf, gres.conf and cgroup.conf
commands.py    what is to be run on each machine, as shell scripts
records.py     what is printed as JSON
"""
