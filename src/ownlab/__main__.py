"""`python -m ownlab`."""

from ownlab.cli.start import main

main()
