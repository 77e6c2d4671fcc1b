"""`python -m ownlab.lab.supervisor PLAN_FILE`: run one runtime from its start to its end."""

from __future__ import annotations

import sys

from ownlab.lab.supervisor.keeper import keep

if __name__ == "__main__":
    sys.exit(keep(sys.argv[1]))
