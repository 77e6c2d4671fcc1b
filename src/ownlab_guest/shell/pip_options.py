"""`pip install --user`, which notebooks use because it works on Colab: pip refuses it in a virtual environment."""

import re
import site
import sys

__all__ = ["without_user_option"]

_INSTALL = re.compile(r"\bpip[\d.]*\s[^\n;&|]*\binstall\b[^\n;&|]*")
_USER = re.compile(r"\s--user(?=\s|$)")


def without_user_option(command: str) -> str:
    """Return a command without --user where this environment does not allow it; it installs into the environment."""
    if "--user" not in command or sys.prefix == sys.base_prefix or site.ENABLE_USER_SITE:
        return command
    return _INSTALL.sub(lambda install: _USER.sub("", install.group()), command)
