"""Programs for PATH: shell scripts, so that they also work in what a notebook or a terminal starts.

kernel/      pip and python of the kernel's environment, where that environment has no program of this name
lab/         ownlab, as it started the lab or the kernel (OWNLAB_HOST)
fallback/    programs that ownlab's own environment may have, at the end of PATH
pip_command  what kernel/pip runs
"""

import os

__all__ = ["FALLBACK", "KERNEL", "LAB"]

_HERE = os.path.dirname(os.path.abspath(__file__))
KERNEL, LAB, FALLBACK = (os.path.join(_HERE, name) for name in ("kernel", "lab", "fallback"))
