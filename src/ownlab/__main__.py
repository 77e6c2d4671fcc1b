"""`python -m ownlab`."""

from ownlab.cli.entry_point import main

main()
