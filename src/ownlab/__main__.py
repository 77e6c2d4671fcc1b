"""`python -m ownlab`."""

from ownlab.cli.main import main

main()
