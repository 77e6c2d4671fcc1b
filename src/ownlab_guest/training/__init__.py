"""Runs a script in one process, or in several ranks by torchrun, as `ownlab run SCRIPT` asks for.

launcher  the first process: becomes the script itself, or torchrun with one child for each rank, also on the nodes of a cluster
node_network  the network interface that ranks of several nodes use, where the name of a node does not say so
rank      one rank: its output goes to a file, and the exception that ends it is recorded
"""
