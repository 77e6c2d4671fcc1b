"""What is in the environments that ownlab creates, unless a person asks for something else."""

from __future__ import annotations

import re

from ownlab.errors import UsageError
from ownlab.lab.environments.records import EnvironmentPreset, NewEnvironment
from ownlab.text import listing, text

__all__ = ["DEEP_LEARNING", "DEFAULT_PRESET", "PRESETS", "package_name", "requirements"]

# A kernel needs ipykernel. pip: `!pip install` in a notebook must find one, and uv leaves it out. nbformat: plotly and other libraries
# that draw in notebooks refuse to without it, and Colab has it.
_KERNEL = ("ipykernel", "pip", "nbformat")
_FIRST_NOTEBOOK = ("numpy", "pandas", "matplotlib", "scikit-learn", "pillow", "tqdm", "ipywidgets")
_DEEP_LEARNING = ("torch", "torchvision", "transformers", "accelerate")

DEFAULT_PRESET = EnvironmentPreset("default", "default", _FIRST_NOTEBOOK)
DEEP_LEARNING = EnvironmentPreset("deep-learning", "deep-learning", (*_DEEP_LEARNING, *_FIRST_NOTEBOOK))
PRESETS = {preset.name: preset for preset in (DEFAULT_PRESET, DEEP_LEARNING)}

_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")


def package_name(requirement: str) -> str:
    """Return the normalised name of a requirement: "Torch==2.13.0" -> "torch". UsageError if there is none."""
    match = _NAME.match(requirement)
    if match is None:  # also an option: uv reads lines that begin with a hyphen as one
        raise UsageError(
            text("{requirement!r} is not a package.", requirement=requirement),
            hint=text("Name packages as pip does: numpy, 'torch==2.13.0', 'package @ https://…'"),
        )
    return re.sub(r"[-_.]+", "-", match[1]).lower()


def requirements(request: NewEnvironment) -> tuple[str, ...]:
    """Return every requirement of a request. One that a person wrote replaces the preset's of the same package."""
    if request.preset and request.preset not in PRESETS:
        raise UsageError(
            text("There is no preset named {name!r}.", name=request.preset),
            hint=text("Presets: {names}.", names=listing(PRESETS)),
        )
    if any("\n" in each or "\r" in each for each in request.packages):
        raise UsageError(text("A package must be written on one line."))
    preset = PRESETS[request.preset].packages if request.preset else ()
    wanted = {package_name(each): each.strip() for each in (*preset, *request.packages)}
    return tuple((wanted | {name: wanted.get(name, name) for name in _KERNEL}).values())
