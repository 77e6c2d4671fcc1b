"""All of them, and the secrets that are kept meanwhile."""

from __future__ import annotations

from tests_colab.cases import ends, files, libraries, outputs, surroundings, syntax
from tests_colab.cases.case import Case

__all__ = ["CASES", "SECRETS"]

CASES: tuple[Case, ...] = (
    *libraries.CASES,
    *files.CASES,
    *outputs.CASES,
    *syntax.CASES,
    *surroundings.CASES,
    *ends.CASES,
)

# Name -> value, and the notebooks to which it is granted.
SECRETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "HF_TOKEN": ("hf_dolphin_7391_of_nobody", ("huggingface_token",)),
    "WANDB_API_KEY": ("wandb_otter_5520_of_nobody", ()),
}
