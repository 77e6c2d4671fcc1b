"""What is in environments: presets, and what people write beside them."""

from __future__ import annotations

import pytest

from ownlab.errors import UsageError
from ownlab.lab.environments.presets import package_name, requirements
from ownlab.lab.environments.records import NewEnvironment


def test_a_first_notebook_finds_its_packages_a_kernel_and_pip() -> None:
    wanted = requirements(NewEnvironment("default", "default"))
    first = {"numpy", "pandas", "matplotlib", "scikit-learn", "pillow", "tqdm", "ipywidgets"}
    assert set(wanted) == first | {"ipykernel", "pip", "nbformat"}


def test_what_a_person_wrote_replaces_the_presets_requirement() -> None:
    wanted = requirements(NewEnvironment("dl", "deep-learning", ("Torch==2.13.0", "ipykernel<7", "polars")))
    assert "Torch==2.13.0" in wanted
    assert "torch" not in wanted
    assert {"ipykernel<7", "polars", "torchvision", "transformers"} <= set(wanted)
    assert "ipykernel" not in wanted


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("scikit_learn", "scikit-learn"),
        ("torch[extra]>=2; python_version > '3'", "torch"),
        ("a.b @ https://x/y", "a-b"),
    ],
)
def test_names_are_compared_as_pip_does(requirement: str, name: str) -> None:
    assert package_name(requirement) == name


@pytest.mark.parametrize("package", ["", "-r/etc/passwd", "--index-url=http://x", "./wheel.whl", "numpy\n-r x"])
def test_options_and_files_are_no_packages(package: str) -> None:
    with pytest.raises(UsageError):
        requirements(NewEnvironment("x", "", (package,)))


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(UsageError, match="no preset named 'everything'"):
        requirements(NewEnvironment("x", "everything"))
