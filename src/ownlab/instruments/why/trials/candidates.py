"""The changes that are worth trying: those that make sense for what was found, and can be applied from outside."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ownlab.instruments.why.records import Call, Explanation, ModelFacts
from ownlab.instruments.why.rule import Case
from ownlab.instruments.why.rules.data_wait import best_workers
from ownlab.instruments.why.trials.code_edits import (
    Edit,
    call_name,
    edit_arguments,
    insert_line,
    remove_line,
    replace_line,
)
from ownlab.text import text

__all__ = ["Candidate", "candidates_for", "gpu_note", "merge"]

# A part of a step below this share is not worth a change.
_WORTHWHILE = 0.05
_MODEL_SHARE = 0.3
_MOST_READERS = 32
_READERS_PER_CORE = 4
_PREFETCH = 4
_FUSED = frozenset({"Adagrad", "Adam", "AdamW", "SGD"})
_WITH_FOREACH = _FUSED | {"Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"}


class Candidate(NamedTuple):
    """A change to try. Of one group only one can be applied."""

    code: str
    title: str
    group: str
    changes: dict[str, Any]  # for the guest (ownlab_guest/why/trial_changes.py)
    edits: tuple[Edit, ...]
    expected_ms: float  # what it may save: the order of trying
    moves_random: bool = False  # whether the script draws its random numbers in another order
    slow_start: bool = False


def candidates_for(case: Case, explanation: Explanation) -> list[Candidate]:
    """Return what to try, the most promising first."""
    costs: dict[str, float] = {}
    for finding in explanation.findings:
        costs[finding.code] = max(costs.get(finding.code, 0.0), finding.cost_ms)
    found = [
        *_loader(case, costs),
        *_threads(case, costs),
        *_calls(case, costs),
        *_optimizer(case),
        *_model(case, costs),
    ]
    return sorted(found, key=lambda candidate: -candidate.expected_ms)


def merge(candidates: Iterable[Candidate]) -> dict[str, Any]:
    """The changes of several candidates at once."""
    merged: dict[str, Any] = {}
    for candidate in candidates:
        for name, value in candidate.changes.items():
            if name == "loader" and name in merged:
                arguments = {**merged[name]["arguments"], **value["arguments"]}
                merged[name] = {**value, "arguments": arguments}
            else:
                merged[name] = value
    return merged


def gpu_note(case: Case) -> str:
    """What is not tried, because nothing here runs on a GPU."""
    if case.model.process.device != "cpu":
        return ""
    return text(
        "The script trains on the CPU: TF32, pinned memory, copies that do not wait and cuDNN's benchmark mode need a GPU and were not tried."
    )


# --- the DataLoader -----------------------------------------------------------------------------------------------------


def _loader(case: Case, costs: dict[str, float]) -> Iterator[Candidate]:
    model, loader = case.model, case.model.loader
    if loader is None:
        return
    for count, cost in _worker_counts(case, costs).items():
        arguments: dict[str, Any] = {"num_workers": count}
        if not loader.num_workers:
            arguments["persistent_workers"] = True
        title = text("num_workers={count}", count=count)
        yield _loader_candidate(case, f"workers-{count}", title, "workers", arguments, cost)
    if "workers-restarted" in costs:
        title, cost = text("persistent_workers=True"), costs["workers-restarted"]
        yield _loader_candidate(case, "persistent-workers", title, "persistent", {"persistent_workers": True}, cost)
    waits = costs.keys() & {"few-workers", "slow-reading", "slow-transfer"}
    if waits and loader.num_workers and (loader.prefetch_factor or 0) < _PREFETCH:
        title = text("prefetch_factor={count}", count=_PREFETCH)
        cost = model.data_wait_ms * _WORTHWHILE
        yield _loader_candidate(case, "prefetch", title, "prefetch", {"prefetch_factor": _PREFETCH}, cost)
    if "blocking-copies" in costs:
        title = text("pin_memory=True, and copies that do not wait")
        pinned = _loader_candidate(case, "pin-memory", title, "pin", {"pin_memory": True}, costs["blocking-copies"])
        yield pinned._replace(changes={**pinned.changes, "non_blocking": True})


def _worker_counts(case: Case, costs: dict[str, float]) -> dict[int, float]:
    """Numbers of workers to try, with what they may save."""
    model, loader = case.model, case.model.loader
    assert loader is not None
    waits = [costs[code] for code in ("no-workers", "few-workers", "collate-in-main", "slow-reading") if code in costs]
    if not loader.num_workers and "slow-preparing" in costs:
        waits.append(costs["slow-preparing"])
    cores = max(1, math.floor(model.cores))
    counts: dict[int, float] = {}
    if waits and model.fetch is not None:
        counts[best_workers(model)] = max(waits)
        if "slow-reading" in costs:
            counts.setdefault(min(_MOST_READERS, cores * _READERS_PER_CORE), max(waits) / 2)
        counts.setdefault(cores, max(waits) / 3)
    if "many-workers" in costs:
        counts.setdefault(cores, costs["many-workers"])
    if loader.iterable:
        # Several workers repeat a stream that does not divide itself among them.
        counts = {1: max(waits)} if waits and not loader.num_workers else {}
    fewer = "many-workers" in costs
    return {
        count: cost
        for count, cost in counts.items()
        if (count < loader.num_workers if fewer else count > loader.num_workers)
    }


def _loader_candidate(
    case: Case, code: str, title: str, group: str, arguments: dict[str, Any], cost: float
) -> Candidate:
    loader = case.model.loader
    assert loader is not None
    written = {name: repr(value) for name, value in arguments.items()}
    listed = ", ".join(f"{name}={value}" for name, value in written.items())
    advice = text("Set {arguments} where the DataLoader is made.", arguments=listed)
    return Candidate(
        code=code,
        title=title,
        group=f"loader-{group}",
        changes={"loader": {"index": case.model.process.loaders.index(loader), "arguments": arguments}},
        edits=(edit_arguments(loader.where, "DataLoader", written, advice),),
        expected_ms=cost,
        moves_random=True,
    )


# --- threads, calls, the optimizer ---------------------------------------------------------------------------------------


def _threads(case: Case, costs: dict[str, float]) -> Iterator[Candidate]:
    model, facts = case.model, case.model.process.trial
    share = model.training_ms / model.step_ms
    best = max(1, int(model.cores // max(1, len(case.ranks))))
    now = model.process.torch_threads
    wanted: dict[int, float] = {}
    if "oversubscribed-threads" in costs or now > model.cores:
        wanted[best] = costs.get("oversubscribed-threads", model.step_ms * _MODEL_SHARE)
    if model.process.device == "cpu" and share >= _MODEL_SHARE:
        wanted.setdefault(best, model.training_ms / 3)
        wanted.setdefault(1, model.training_ms / 4)
    for count, cost in wanted.items():
        if count != now:
            line = f"torch.set_num_threads({count})"
            yield Candidate(
                code=f"threads-{count}",
                title=text("{count} thread(s) instead of {now}", count=count, now=now),
                group="threads",
                changes={"threads": count},
                edits=(
                    replace_line(
                        facts.threads_where if facts is not None else None,
                        line,
                        text("Start it with OMP_NUM_THREADS={count}, or call {line} first.", count=count, line=line),
                    ),
                ),
                expected_ms=cost,
            )


def _calls(case: Case, costs: dict[str, float]) -> Iterator[Candidate]:
    """Calls that can be left out."""
    collects = _longest(case, "gc", "gc.collect")
    if "garbage-collection" in costs and collects is not None:
        edit = remove_line(collects.where, text("Remove gc.collect() from the loop."))
        title = text("without gc.collect()")
        yield Candidate("no-collect", title, "gc", {"no_collect": True}, (edit,), costs["garbage-collection"])
    empties = _longest(case, "cache", "torch.cuda.empty_cache")
    if "cache-emptied" in costs and empties is not None:
        edit = remove_line(empties.where, text("Remove torch.cuda.empty_cache() from the loop."))
        title = text("without torch.cuda.empty_cache()")
        yield Candidate("keep-cache", title, "cache", {"keep_cache": True}, (edit,), costs["cache-emptied"])
    ddp = case.model.process.ddp
    if "find-unused-parameters" in costs and ddp is not None:
        arguments = {"find_unused_parameters": "False"}
        edit = edit_arguments(
            ddp.where, "DistributedDataParallel", arguments, text("Remove find_unused_parameters=True.")
        )
        title = text("find_unused_parameters=False")
        yield Candidate(
            "unused-parameters",
            title,
            "ddp",
            {"ddp": {"find_unused_parameters": False}},
            (edit,),
            costs["find-unused-parameters"],
        )


def _longest(case: Case, phase: str, name: str) -> Call | None:
    return next(iter(case.model.calls(phase, name)), None)


def _optimizer(case: Case) -> Iterator[Candidate]:
    model, facts = case.model, case.model.process.trial
    spent = max(model.phase_ms("optimizer"), model.gpu.spans_ms.get("optimizer", 0.0) if model.gpu is not None else 0.0)
    if spent < _WORTHWHILE * model.step_ms or not model.process.optimizers or facts is None:
        return
    optimizer = model.process.optimizers[0]
    where = facts.optimizers[0] if len(facts.optimizers) == 1 else None
    kinds = {"fused": optimizer.name in _FUSED, "foreach": optimizer.name in _WITH_FOREACH and not optimizer.foreach}
    if optimizer.device != "cpu" and optimizer.foreach is None:
        kinds["foreach"] = False  # it is the default there
    for kind in (kind for kind, possible in kinds.items() if possible and not optimizer.fused):
        arguments = {kind: True} if kind == "foreach" else {"fused": True, "foreach": None}
        advice = text("Set {argument}=True in {optimizer}.", argument=kind, optimizer=optimizer.name)
        yield Candidate(
            code=f"optimizer-{kind}",
            title=text("{optimizer} with {argument}=True", optimizer=optimizer.name, argument=kind),
            group="optimizer",
            changes={"optimizer": arguments},
            edits=(edit_arguments(where, optimizer.name, {kind: "True"}, advice),),
            expected_ms=spent * (0.7 if kind == "fused" else 0.5),
        )


# --- the model ------------------------------------------------------------------------------------------------------------


def _model(case: Case, costs: dict[str, float]) -> Iterator[Candidate]:
    process = case.model.process
    facts = process.trial.model if process.trial is not None else None
    if facts is None or case.model.model_ms < _MODEL_SHARE * case.model.step_ms:
        return
    if facts.full_precision and facts.bf16:
        yield _as_found(_autocast(case, facts), costs, "full-precision")
    if facts.convolutions and not facts.channels_last and not facts.distributed:
        name = call_name(case.code, facts.where)
        line = f"{name} = {name}.to(memory_format=torch.channels_last)"
        title, advice = text("channels_last"), text("Before the loop: {line}, and the same for each batch.", line=line)
        candidate = _before_loop(case, "channels-last", title, {"channels_last": True}, line, advice, share=0.2)
        yield _as_found(candidate, costs, "layout")
    if process.device != "cpu":
        yield from _of_gpu(case, facts, costs)
    if not facts.compiled and (process.device != "cpu" or shutil.which("c++") or shutil.which("g++")):
        line = f"{call_name(case.code, facts.where)}.compile()"
        title, advice = text("torch.compile"), text("Before the loop: {line}", line=line)
        candidate = _before_loop(case, "compile", title, {"compile": True}, line, advice, share=0.1)
        found = _as_found(candidate, costs, "launch-bound")
        yield found._replace(slow_start=True)


def _as_found(candidate: Candidate, costs: dict[str, float], *codes: str) -> Candidate:
    """What a finding is worth is better known than what such a change saves in the mean."""
    found = [costs[code] for code in codes if code in costs]
    return candidate._replace(expected_ms=max(found)) if found else candidate


def _of_gpu(case: Case, facts: ModelFacts, costs: dict[str, float]) -> Iterator[Candidate]:
    if facts.full_precision:
        line = 'torch.set_float32_matmul_precision("high")'
        title, advice = text("TF32"), text("Before the loop: {line}", line=line)
        yield _before_loop(case, "tf32", title, {"tf32": True}, line, advice, share=0.3)
    settings = case.model.process.gpu.settings if case.model.process.gpu is not None else None
    if facts.convolutions and not (settings is not None and settings.cudnn_benchmark):
        line = "torch.backends.cudnn.benchmark = True"
        title, advice = text("cuDNN's benchmark mode"), text("Before the loop: {line}", line=line)
        candidate = _before_loop(case, "cudnn-benchmark", title, {"cudnn_benchmark": True}, line, advice, share=0.15)
        yield _as_found(candidate, costs, "cudnn-benchmark")


def _autocast(case: Case, facts: ModelFacts) -> Candidate:
    backward = next((call.where for call in case.model.calls("backward") if call.where is not None), None)
    line = f'with torch.autocast("{case.model.process.device}", dtype=torch.bfloat16):'
    advice = text("Put the forward pass and the loss below: {line}", line=line)
    return Candidate(
        code="autocast",
        title=text("autocast to bfloat16"),
        group="autocast",
        changes={"autocast": "bfloat16"},
        edits=(Edit("wrap", facts.where, advice, line=line, last=backward),),
        expected_ms=case.model.model_ms * 0.4,
    )


def _before_loop(
    case: Case, code: str, title: str, changes: dict[str, Any], line: str, advice: str, *, share: float
) -> Candidate:
    """A change that is one line before the optimizer is made."""
    facts = case.model.process.trial
    where = facts.optimizers[0] if facts is not None and len(facts.optimizers) == 1 else None
    return Candidate(code, title, code, changes, (insert_line(where, line, advice),), case.model.model_ms * share)
