"""`ownlab doctor --cluster`: what is wrong with the Slurm cluster that is reached from here.

records.py     the facts of a cluster, and its diagnosis
reader.py      reads them: configuration, munge, controllers, nodes, connections
munge.py       munge's own commands: whether credentials are made and taken here
node_jobs.py   a job of some seconds on each node, and what it reports
node_report.py runs in such a job: cards, users, interpreter, connections to the other nodes
connections.py whether something listens at an address
diagnosis.py   the rules (rules/cluster/) over the facts; the verdict
terminal.py    the diagnosis in the terminal
"""
