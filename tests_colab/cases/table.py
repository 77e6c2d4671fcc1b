"""All cases, and the secrets that are set for them."""

from __future__ import annotations

from tests_colab.cases import environment, failures, files, libraries, outputs, syntax
from tests_colab.cases.case import Case

__all__ = ["CASES", "SECRETS"]

CASES: tuple[Case, ...] = (
    *libraries.CASES,
    *files.CASES,
    *outputs.CASES,
    *syntax.CASES,
    *environment.CASES,
    *failures.CASES,
)

# Name -> value, and the notebooks to which it is granted.
SECRETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "HF_TOKEN": ("hf_dolphin_7391_of_nobody", ("huggingface_token",)),
    "WANDB_API_KEY": ("wandb_otter_5520_of_nobody", ()),
}
