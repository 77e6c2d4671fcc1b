"""`pip` in an environment that may have none: its own, ownlab's pip for this environment, or uv's.

Started by path, in the kernel's Python: `python pip_command.py ARGUMENTS`.
"""

import os
import shutil
import sys
from importlib.machinery import PathFinder
from typing import List, Optional

_MISSING = (
    "The environment {prefix} has no pip, and neither pip nor uv was found elsewhere.\nInstall pip into it: {command}\n"
)
_WITH_DISTRIBUTION = "your system's package for pip, such as `apt install python3-pip`"


def command(arguments: List[str]) -> Optional[List[str]]:
    """Return the command that does what pip does with these arguments here; None if there is none."""
    if PathFinder.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *arguments]
    beside = os.path.dirname(os.environ.get("OWNLAB_HOST", ""))
    pip = os.path.join(beside, "pip")
    if beside and os.access(pip, os.X_OK):
        return [pip, "--python", sys.executable, *arguments]
    uv = os.path.join(beside, "uv")
    program = uv if beside and os.access(uv, os.X_OK) else shutil.which("uv")
    # Our own program of this name would only say that there is none.
    here = os.path.dirname(os.path.realpath(__file__))
    if program is None or os.path.dirname(os.path.realpath(program)) == os.path.join(here, "fallback"):
        return None
    return [program, "pip", *arguments, *(["--python", sys.executable] if arguments else [])]


def main() -> int:
    del sys.path[0]  # Python put this file's folder there
    found = command(sys.argv[1:])
    if found is not None:
        os.execv(found[0], found)  # noqa: S606  # a list of arguments, without a shell
    by_hand = f"{sys.executable} -m ensurepip --upgrade --default-pip"
    known = PathFinder.find_spec("ensurepip") is not None  # some distributions leave it out
    sys.stderr.write(_MISSING.format(prefix=sys.prefix, command=by_hand if known else _WITH_DISTRIBUTION))
    return 1


if __name__ == "__main__":
    sys.exit(main())
