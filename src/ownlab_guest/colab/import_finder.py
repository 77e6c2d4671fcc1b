"""google.colab is found where a regular package `google` is installed as well, and nothing else of `google` changes.

Old versions of protobuf and google-cloud bring a google/__init__.py, or make `google` by a .pth file when Python starts:
with those, a folder further on sys.path is never looked into.
"""

import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Optional, Sequence

__all__ = ["SITE", "install"]

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
