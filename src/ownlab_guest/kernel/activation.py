"""The kernel's environment, activated: `!pip`, `!python` and `uv pip` in a notebook reach the environment of its kernel.

Programs find an environment by PATH, VIRTUAL_ENV and CONDA_PREFIX, which a kernel inherits from a server in another one.
"""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.machinery import PathFinder
from typing import Any, Callable, Dict, List, MutableMapping

from ownlab_guest.programs import FALLBACK, KERNEL, LAB

__all__ = ["activate", "complete_magics"]

_OF_VENV = ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT")
_OF_CONDA = ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_PROMPT_MODIFIER", "CONDA_SHLVL")
_SCRIPT_SECONDS = 20
# What a shell changes by itself.
_OF_SHELL = frozenset(("_", "SHLVL", "PWD", "OLDPWD"))


def activate(environ: MutableMapping[str, str]) -> None:
    """Change these variables as the activation of the running Python's environment does."""
    folder = os.path.dirname(sys.executable)
    if not folder:
        return  # embedded: there is no program to find
    environ["OWNLAB_KERNEL_PYTHON"] = sys.executable
    is_venv = sys.prefix != sys.base_prefix
    is_conda = not is_venv and os.path.isdir(os.path.join(sys.prefix, "conda-meta"))
    for name in _OF_VENV if environ.get("VIRTUAL_ENV") != sys.prefix else ():
        environ.pop(name, None)
    # A virtual environment may stand on an environment of conda, which stays active then.
    for name in _OF_CONDA if environ.get("CONDA_PREFIX") not in (sys.prefix, sys.base_prefix) else ():
        environ.pop(name, None)
    after = [LAB]
    if is_venv:
        environ["VIRTUAL_ENV"] = sys.prefix
    elif is_conda:
        after += _conda_programs()
    else:
        environ.setdefault("UV_SYSTEM_PYTHON", "1")  # uv would insist on a virtual environment
    # The folder of a system's Python has many programs: moving it to the front would change which ones are found.
    first = [folder, KERNEL] if is_venv or is_conda else [KERNEL]
    environ["PATH"] = _path(environ.get("PATH", os.defpath), [*first, *after])
    if is_conda:
        _activate_conda(environ)


def _path(path: str, first: List[str]) -> str:
    """Return PATH with these folders first, each folder once."""
    rest = [each for each in path.split(os.pathsep) if each not in (*first, FALLBACK)]
    return os.pathsep.join([*first, *rest, FALLBACK])


def complete_magics(shell: Any) -> None:
    """Let `%pip` and `%uv` work where the environment lacks these modules: IPython knows only `python -m pip`."""
    for name in ("pip", "uv"):
        shell.register_magic_function(_installer(shell, name), "line", name)


def _installer(shell: Any, name: str) -> Callable[[str], None]:
    def run(line: str) -> None:
        # Not importlib.util.find_spec: setuptools has a hook in it for pip.
        has_module = PathFinder.find_spec(name) is not None
        shell.system(f"{shlex.quote(sys.executable)} -m {name} {line}" if has_module else f"{name} {line}")
        sys.stdout.write("Note: you may need to restart the kernel to use updated packages.\n")  # as IPython has it

    run.__doc__ = f"Run {name} for the environment of this kernel: %{name} ARGUMENTS"
    return run


# --- conda ------------------------------------------------------------------------------------------------------------


def _conda_root() -> str:
    """Return the installation of conda that this environment belongs to; "" if that is unknown."""
    above, parent = os.path.split(os.path.dirname(sys.prefix))
    candidates = [sys.prefix, *([above] if parent == "envs" else [])]
    return next((each for each in candidates if os.path.isdir(os.path.join(each, "condabin"))), "")


def _conda_programs() -> List[str]:
    root = _conda_root()
    return [os.path.join(root, "condabin")] if root else []


def _activate_conda(environ: MutableMapping[str, str]) -> None:
    root = _conda_root()
    in_folder = os.path.basename(os.path.dirname(sys.prefix)) == "envs"
    name = "base" if root == sys.prefix else os.path.basename(sys.prefix) if in_folder else sys.prefix
    is_active = environ.get("CONDA_PREFIX") == sys.prefix  # by the user: its scripts have run
    environ.update(CONDA_PREFIX=sys.prefix, CONDA_DEFAULT_ENV=name, CONDA_SHLVL="1")
    program = os.path.join(root, "bin", "conda")
    if root and os.access(program, os.X_OK):
        environ.setdefault("CONDA_EXE", program)
    if not is_active:
        environ.update(_conda_variables())
        environ.update(_script_variables(environ))


def _conda_variables() -> Dict[str, str]:
    """Return the variables of `conda env config vars set`."""
    try:
        with open(os.path.join(sys.prefix, "conda-meta", "state"), encoding="utf-8") as file:
            given = json.load(file)["env_vars"]
        return {name: value for name, value in given.items() if isinstance(value, str)}
    except (OSError, ValueError, LookupError, AttributeError, TypeError):  # none were set
        return {}


def _script_variables(environ: MutableMapping[str, str]) -> Dict[str, str]:
    """Return what the scripts of the environment's packages set, such as the paths of compilers and of GDAL's data."""
    folder = os.path.join(sys.prefix, "etc", "conda", "activate.d")
    shell = shutil.which("bash")
    try:
        scripts = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".sh")]
    except OSError:
        return {}
    if not scripts or shell is None:
        return {}
    code = 'for script in "$@"; do . "$script" >&2 </dev/null; done; exec env -0'
    found: Dict[str, str] = {}
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # the notebook works without
        ran = subprocess.run(
            [shell, "-c", code, "bash", *scripts],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=_SCRIPT_SECONDS,
            check=True,
        )
        for entry in ran.stdout.split(b"\0"):
            name, is_variable, value = os.fsdecode(entry).partition("=")
            if is_variable and name not in _OF_SHELL and environ.get(name) != value:
                found[name] = value
    return found
