"""The engine of this machine: supervisors with leases of the store. It needs no service.

engine.py   the four methods
cards.py    which cards a run asks for: any number of one kind
"""
