"""google.colab is found where a regular package `google` is installed as well, and nothing else of `google` changes.

Old versions of protobuf and google-cloud bring a google/__init__.py, or make `google` by a .pth file when Python starts:
with those, a folder further on sys.path is never looked into.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import shutil
import sys
from types import ModuleType
from typing import Any, List, Mapping, Optional, Sequence

__all__ = ["SITE", "install", "kernel_class", "prepare"]

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
NAME = "google.colab"


class Finder:
    """For sys.meta_path: knows one package. What is inside it is found by Python's own finders."""

    @staticmethod
    def find_spec(
        name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name != NAME:
            return None
        folder = os.path.join(SITE, *NAME.split("."))
        return importlib.util.spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )


def install() -> None:
    """From now on `import google.colab` gives ours, also where Google's own is installed."""
    if SITE not in sys.path:
        sys.path.append(SITE)  # `google` itself, where nobody else has it
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)


_notes: List[str] = []  # what the first cell is told


def prepare() -> None:
    """/content, google.colab, and the variables by which notebooks look for Colab."""
    why = enter_content()
    if why:
        _notes.append(why)
    os.environ.update(variables(os.environ))
    install()
    importlib.import_module("google.colab")  # notebooks look for it in sys.modules


def enter_content() -> str:
    """ "", or why there is no /content: the notebook runs all the same."""
    if not os.environ.get("OWNLAB_CONTENT"):
        return ""
    from ownlab_guest.colab import content_folder

    try:
        return content_folder.enter()
    except OSError as exc:
        return f"There is no /content here: {exc}"


def kernel_class() -> Any:
    """The class of such a kernel; ipykernel has to be installed."""
    kernel = importlib.import_module("google.colab._kernel").ColabKernel
    kernel.shell_class.notes = _notes
    return kernel


def variables(environ: Mapping[str, str]) -> Mapping[str, str]:
    """What is to be set in this environment."""
    return {
        "COLAB_RELEASE_TAG": "ownlab",
        "COLAB_BACKEND_VERSION": "next",
        "COLAB_GPU": "1" if sees_card(environ) else "0",
        "COLAB_JUPYTER_TRANSPORT": "ipc",
        "PATH": path_of(environ),
        "PYTHONPATH": python_path_of(environ),
    }


def sees_card(environ: Mapping[str, str]) -> bool:
    """Whether a card is visible; asking a driver would take longer than the whole start."""
    shown = [environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]
    if any(each not in ("", "-1") for each in shown):
        return True
    return "CUDA_VISIBLE_DEVICES" not in environ and os.path.exists("/dev/nvidia0")


def path_of(environ: Mapping[str, str]) -> str:
    """PATH with this environment's own programs first: `!pip` and `!python` are the kernel's, as on Colab."""
    path = environ.get("PATH", os.defpath)
    own = os.path.dirname(sys.executable)
    found = shutil.which(os.path.basename(sys.executable), path=path)
    if found is not None and os.path.dirname(found) == own:
        return path
    return own + os.pathsep + path if own else path


def python_path_of(environ: Mapping[str, str]) -> str:
    """PYTHONPATH with our folder last: scripts that a notebook starts find google.colab as well.

    It is set on Colab, so notebooks add to it without looking whether it is there.
    """
    path = environ.get("PYTHONPATH", "")
    if not path:
        return SITE
    return path if SITE in path.split(os.pathsep) else path + os.pathsep + SITE
