"""`python -m ownlab.server`: the server of one lab."""

from __future__ import annotations

import sys

from ownlab.server.app import main

if __name__ == "__main__":
    sys.exit(main())
