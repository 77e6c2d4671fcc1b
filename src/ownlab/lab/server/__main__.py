"""`python -m ownlab.lab.server`: the server of one lab."""

from __future__ import annotations

import logging
import os
import sys

from ownlab.lab.server.app import main

if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not `sys.exit`: it waits for threads, and one of a request that was under way when the loop ended waits for ever.
    os._exit(code)
