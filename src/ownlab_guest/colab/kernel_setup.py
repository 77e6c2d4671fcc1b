"""Turn this process into a kernel in Colab mode, before ipykernel is imported: /content, google.colab, and variables.

google.colab is found even where a regular package `google` is installed, and nothing else of `google` changes. Old versions
of protobuf and google-cloud bring a google/__init__.py, or create `google` with a .pth file when Python starts; then Python
does not search other folders of sys.path for google.colab.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import shutil
import sys
from types import ModuleType
from typing import Any, List, Mapping, Optional, Sequence

from ownlab_guest.shell import apt
from ownlab_guest.shell.notebook_folder import notebook_path
from ownlab_guest.text import shown, text

__all__ = ["SITE", "install", "kernel_class", "prepare"]

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
NAME = "google.colab"
# As plotly does on Colab: the page loads its script once instead of the 4.8 MB that each output would contain. With the
# renderer of JupyterLab first, which needs no network.
PLOTLY = "plotly_mimetype+colab"


class Finder:
    """A finder for sys.meta_path that finds google.colab; Python's own finders find its submodules."""

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
    """Make `import google.colab` load our package, even where Google's own is installed."""
    if SITE not in sys.path:
        sys.path.append(SITE)  # for `google` itself, where no other package provides it
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)


_notes: List[str] = []  # printed by the first cell


def prepare() -> None:
    """Set up /content, google.colab, and the variables by which notebooks detect Colab."""
    _notes.extend(shown(note) for note in enter_content() if note)
    os.environ.update(variables(os.environ))
    install()
    find_modules_beside_notebook()
    importlib.import_module("google.colab")  # notebooks check sys.modules for it


def enter_content() -> List[str]:
    """Make /content available. Return what is missing and why; the notebook runs anyway."""
    if not os.environ.get("OWNLAB_CONTENT"):
        return []
    from ownlab_guest.colab import content_folder, system_overlay

    try:
        return [content_folder.enter(), system_overlay.refusal()]
    except OSError as exc:
        return [text("/content is not available: {reason}", reason=exc), system_overlay.refusal()]


def find_modules_beside_notebook() -> None:
    """Let a notebook import modules that are beside it: the working folder is /content. All others come first."""
    notebook = notebook_path()
    folder = os.path.dirname(notebook)
    if os.path.isabs(folder) and folder not in sys.path:
        sys.path.append(folder)


def kernel_class() -> Any:
    """Return the kernel class for Colab mode; it needs ipykernel."""
    kernel = importlib.import_module("google.colab._kernel").ColabKernel
    kernel.shell_class.notes = _notes
    return kernel


def variables(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment variables to set."""
    return {
        "COLAB_RELEASE_TAG": "ownlab",
        "COLAB_BACKEND_VERSION": "next",
        "COLAB_GPU": "1" if sees_card(environ) else "0",
        "COLAB_JUPYTER_TRANSPORT": "ipc",
        "PATH": path_of(environ),
        "PYTHONPATH": python_path_of(environ),
        "PLOTLY_RENDERER": environ.get("PLOTLY_RENDERER") or PLOTLY,
        **apt.variables(environ),
    }


def sees_card(environ: Mapping[str, str]) -> bool:
    """Return whether a card is visible, without asking the driver, which takes longer than the whole start."""
    visible = [environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]
    if any(each not in ("", "-1") for each in visible):
        return True
    return "CUDA_VISIBLE_DEVICES" not in environ and os.path.exists("/dev/nvidia0")


def path_of(environ: Mapping[str, str]) -> str:
    """Return PATH with this environment's programs first: `!pip` and `!python` are the kernel's, as on Colab."""
    path = environ.get("PATH", os.defpath)
    own = os.path.dirname(sys.executable)
    found = shutil.which(os.path.basename(sys.executable), path=path)
    if found is not None and os.path.dirname(found) == own:
        return path
    return own + os.pathsep + path if own else path


def python_path_of(environ: Mapping[str, str]) -> str:
    """Return PYTHONPATH with our folder last, so that scripts started by a notebook find google.colab as well.

    Colab sets it, so notebooks extend it without checking that it exists.
    """
    path = environ.get("PYTHONPATH", "")
    if not path:
        return SITE
    return path if SITE in path.split(os.pathsep) else path + os.pathsep + SITE
