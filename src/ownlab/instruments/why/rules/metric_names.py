"""How functions that compute metrics are called, and the libraries that have them."""

from __future__ import annotations

import re

from ownlab.instruments.why.step_model import Work

__all__ = ["is_metric"]

_METRIC_LIBRARIES = {"sklearn", "torchmetrics", "evaluate", "sacrebleu", "seqeval", "rouge_score"}
_METRIC_NAMES = re.compile(
    r"metric|accuracy|confusion|(^|_)(f1|auc|iou|bleu|rouge|precision|recall|score)", re.IGNORECASE
)


def is_metric(work: Work) -> bool:
    """Whether work in the training process computes metrics."""
    name = work.where.function.rpartition(".")[2]
    return (
        work.library in _METRIC_LIBRARIES or bool(_METRIC_NAMES.search(name)) or bool(_METRIC_NAMES.search(work.call))
    )
