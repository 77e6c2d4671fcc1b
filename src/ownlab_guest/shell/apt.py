"""`apt install NAME` without a question, as on Colab: in notebooks nobody may be there to answer it."""

import os
from typing import Dict, Mapping

__all__ = ["SETTING", "variables"]

SETTING = 'APT::Get::Assume-Yes "true";\n'
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "apt.conf")


def variables(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables for commands: apt reads APT_CONFIG in addition to its own files. A person's own are kept."""
    ours = {"APT_CONFIG": _FILE, "DEBIAN_FRONTEND": "noninteractive"}
    return {name: environ.get(name) or value for name, value in ours.items()}
