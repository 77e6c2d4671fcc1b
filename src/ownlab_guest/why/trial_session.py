"""A trial of `ownlab why --try`: applies changes to an unmodified script, and records what is needed to compare runs.

OWNLAB_WHY_TRIAL names the changes as JSON; without any it is the run that others are compared with. All runs of a trial draw the same
random numbers, as far as the script sets no seeds itself.
"""

import json
import os
import random
import sys
from types import ModuleType
from typing import Any, Callable, Dict

from ownlab_guest.why.post_import import Hook, PostImport
from ownlab_guest.why.session import Session
from ownlab_guest.why.side_effects import SideEffects
from ownlab_guest.why.trial_changes import LoaderChanges, ModelChanges, OptimizerChanges, apply_to_torch
from ownlab_guest.why.trial_record import TrialRecord

__all__ = ["start_trial"]

_SEED = 20


def start_trial(session: Session) -> None:
    """Register the hooks of the trial beside those of the measurement."""
    changes: Dict[str, Any] = json.loads(os.environ["OWNLAB_WHY_TRIAL"])
    effects = SideEffects(session.folder)
    record = TrialRecord(session.loaders, effects)
    model = ModelChanges(changes, record)
    loaders = LoaderChanges(changes.get("loader") or {})
    optimizers = OptimizerChanges(changes.get("optimizer") or {}, record)
    session.describe_trial = record.document
    session.gpu.windows = not changes  # the run that others are compared with is also explained

    def torch_loaded(torch: Any) -> None:
        torch.manual_seed(_SEED)
        apply_to_torch(torch, changes, record)
        model.patch_backward(torch)
        model.patch_module(torch)
        effects.patch_save(torch)

    def numpy_loaded(numpy: Any) -> None:
        numpy.random.seed(_SEED)

    random.seed(_SEED)
    hooks: Dict[str, Hook] = {
        "torch": torch_loaded,
        "numpy": numpy_loaded,
        "torch.optim": optimizers.patch,
        "torch.utils.data.dataloader": _both(loaders.patch, record.patch_iterator),
        "torch.nn.parallel.distributed": model.patch_ddp,
    }
    PostImport({name: session.guarded(name, hook) for name, hook in hooks.items()}).install()
    os.register_at_fork(after_in_child=loaders.forget)
    sys.addaudithook(effects.noticed)


def _both(first: Callable[[ModuleType], None], second: Callable[[ModuleType], None]) -> Hook:
    def run(module: ModuleType) -> None:
        first(module)
        second(module)

    return run
