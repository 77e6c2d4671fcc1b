"""The engine of Slurm clusters, by Slurm's own commands: sbatch, squeue, scancel, scontrol, sinfo. It administers nothing.

commands.py      runs a command of Slurm, with a deadline and an environment that changes nothing of what it prints
failures.py      what the commands' errors mean, and what to do
records.py       partitions, nodes and jobs, as Slurm describes them
readers.py       reads what the commands print: text formats that are the same from Slurm 20.11 on
batch_script.py  the script that Slurm runs on the first node of a job
job_array.py     many runs as one job array
requests.py      a request as the options of sbatch, checked against the partitions
job_status.py    what Slurm says of a job, as a status; and what a job leaves in its folder
engine.py        the four methods
"""
