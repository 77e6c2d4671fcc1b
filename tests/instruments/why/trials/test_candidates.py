"""Only changes that make sense for what was found are tried, and those that need a GPU only with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.instruments.why import invented
from tests.instruments.why.invented_gpu import GpuModel, operation, window, with_gpu

from ownlab.instruments.why.code_change import CodeChanges, read_snippet
from ownlab.instruments.why.explanation import explain
from ownlab.instruments.why.records import ModelFacts, Optimizer, Place, TrialFacts
from ownlab.instruments.why.rule import Case
from ownlab.instruments.why.step_model import StepModel
from ownlab.instruments.why.trials.candidates import Candidate, candidates_for, gpu_note, merge
from ownlab.instruments.why.trials.code_edits import Edit, call_name, edit_arguments, edit_code, insert_line
from ownlab.instruments.why.trials.experiment import _copies_note, _sentence
from ownlab_guest.why.trial_record import _is_channels_last

CODE = """
def train():
    model = Net()
    optimizer = AdamW(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4)
    for x, y in loader:
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
"""


def facts(**given: Any) -> TrialFacts:
    model = ModelFacts(
        **{
            "where": None,
            "parameters": 10,
            "convolutions": 3,
            "channels_last": False,
            "distributed": False,
            "compiled": False,
            "full_precision": True,
            "bf16": True,
            **given,
        }
    )
    return TrialFacts((), {}, model, (None,), None, (), (), ())


def candidates(device: str, times: dict[str, float], **given: Any) -> list[Candidate]:
    optimizer = Optimizer("AdamW", False, None, 100, 4000, device)
    process = replace(
        invented.process(**dict[str, Any](times)),
        device=device,
        trial=facts(**given),
        optimizers=(optimizer,),
        torch_threads=16,
    )
    evidence = invented.evidence(process)
    case = Case(StepModel(process, ()), (), evidence, CodeChanges(()))
    assert bool(gpu_note(case)) == (device == "cpu")
    return candidates_for(case, explain(evidence))


def codes(found: list[Candidate]) -> set[str]:
    return {candidate.code for candidate in found} - {"compile"}  # which needs a compiler here


def test_what_needs_a_gpu_is_tried_with_one_alone() -> None:
    times = {"forward_ms": 10.0, "backward_ms": 10.0, "optimizer_ms": 4.0}
    assert codes(candidates("cpu", times)) == {
        "autocast",
        "channels-last",
        "optimizer-fused",
        "optimizer-foreach",
        "threads-1",
    }
    assert codes(candidates("cuda", times)) == {
        "autocast",
        "channels-last",
        "optimizer-fused",
        "tf32",
        "cudnn-benchmark",
    }


def test_what_is_there_already_is_not_tried() -> None:
    times = {"forward_ms": 10.0, "backward_ms": 10.0, "optimizer_ms": 0.1}
    found = candidates("cuda", times, full_precision=False, channels_last=True, compiled=True)
    assert codes(found) == {"cudnn-benchmark"}
    assert candidates("cuda", times, full_precision=False, convolutions=0, compiled=True) == []


def test_a_model_that_is_hardly_used_is_left_alone() -> None:
    assert candidates("cuda", {"data_ms": 100.0, "forward_ms": 1.0}) == []


def test_the_arguments_of_one_loader_are_applied_together() -> None:
    first = Candidate("a", "", "a", {"loader": {"index": 0, "arguments": {"num_workers": 2}}}, (), 1.0)
    second = Candidate("b", "", "b", {"loader": {"index": 0, "arguments": {"pin_memory": True}}, "tf32": True}, (), 1.0)
    merged = merge((first, second))
    assert merged == {"loader": {"index": 0, "arguments": {"num_workers": 2, "pin_memory": True}}, "tf32": True}


def test_changes_of_one_line_are_one_diff(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(CODE)
    loader, optimizer, call = (Place(str(file), line, "train") for line in (5, 4, 7))
    snippets = [snippet for place in (loader, optimizer, call) if (snippet := read_snippet(place)) is not None]
    code = CodeChanges(snippets)
    assert call_name(code, call) == "model"
    edits = [
        edit_arguments(loader, "DataLoader", {"num_workers": "2"}, "no line"),
        insert_line(optimizer, "first()", "no line"),
        insert_line(None, "second()", "add second()"),
        edit_arguments(loader, "DataLoader", {"pin_memory": "True"}, "no line"),
        insert_line(optimizer, "third()", "no line"),
    ]
    changes, advice = edit_code(edits, code)
    assert advice == ("add second()",)
    added = [line[1:].strip() for change in changes for line in change.diff.splitlines() if line.startswith("+")]
    assert "loader = DataLoader(data, batch_size=4, num_workers=2, pin_memory=True)" in added
    assert {"first()", "third()"} <= set(added)


def test_changes_of_the_model_are_tried_if_the_gpu_is_busy_with_it_while_the_host_waits() -> None:
    """The host sends a step's work in 10 ms, and waits 90 ms for a value: the model takes nearly all of the step nevertheless."""
    host = replace(invented.process(forward_ms=4, backward_ms=4, optimizer_ms=2, sync_ms=90), trial=facts())
    run = with_gpu(host, {"forward": 33, "backward": 60, "optimizer": 5}, window(operation("aten::mm", 97)))
    evidence = invented.evidence(run)
    case = Case(StepModel(run, ()), (), evidence, CodeChanges(()))
    assert {"autocast", "tf32", "channels-last"} <= {each.code for each in candidates_for(case, explain(evidence))}


def test_the_forward_pass_is_put_below_autocast(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(CODE)
    first, last = Place(str(file), 7, "train"), Place(str(file), 9, "train")
    (change,), _ = edit_code([Edit("wrap", first, "", line="with autocast():", last=last)], CodeChanges(()))
    assert change.diff.splitlines()[2:] == [
        "+        with autocast():",
        "+            output = model(x)",
        "+            loss = criterion(output, y)",
    ]
    elsewhere = Place(str(file), 9, "other")
    assert edit_code([Edit("wrap", first, "put it below", last=elsewhere)], CodeChanges(())) == ((), ("put it below",))


class Weight:
    """A tensor of which only the shape and the layout are asked for."""

    def __init__(self, *shape: int, in_nhwc: bool) -> None:
        self.shape, self._in_nhwc = shape, in_nhwc

    def dim(self) -> int:
        return len(self.shape)

    def is_contiguous(self, memory_format: object) -> bool:
        return self._in_nhwc or self.shape[2] * self.shape[3] == 1


class Formats:
    channels_last = object()


@pytest.mark.parametrize("in_nhwc", [True, False])
def test_weights_of_one_by_one_say_nothing_of_the_layout(in_nhwc: bool) -> None:
    """ResNet-50 in NCHW was taken for channels last because of them, and channels last was not tried."""
    weights = [Weight(64, 3, 7, 7, in_nhwc=in_nhwc), Weight(64, 64, 1, 1, in_nhwc=in_nhwc)]
    assert _is_channels_last(Formats, weights) is in_nhwc
    assert not _is_channels_last(Formats, weights[1:])


def test_the_change_of_a_finding_is_tried_before_those_that_help_in_the_mean() -> None:
    """Convolutions in NCHW under autocast: channels last comes before cuDNN's benchmark mode and compiling."""
    seen = window(
        operation("aten::cudnn_convolution", 30, types=("c10::BFloat16",) * 2, kernel="nchwToNhwcKernel", count=50),
        operation("aten::native_batch_norm", 30, count=50),
        operation("aten::add", 38, count=50),
    )
    host = invented.process(forward_ms=30, backward_ms=65, optimizer_ms=5)
    run = with_gpu(
        host,
        {"forward": 30, "backward": 65, "optimizer": 5},
        seen,
        model=GpuModel({"float32": 1}, 53, channels_last=False),
    )
    run = replace(run, trial=facts(full_precision=False))
    evidence = invented.evidence(run)
    explanation = explain(evidence)
    assert "layout" in invented.codes(explanation)
    found = candidates_for(Case(StepModel(run, ()), (), evidence, CodeChanges(())), explanation)
    assert found[0].code == "channels-last"


def test_copies_that_no_loader_makes_are_said_not_to_be_tried() -> None:
    copies = invented.call("copy", "Tensor.to", 30, detail="pageable, blocking")
    explanation = invented.explained(
        replace(invented.process(forward_ms=10, copy_ms=30, calls=(copies,)), device="cuda")
    )
    assert "blocking-copies" in invented.codes(explanation)
    (note,) = _copies_note(explanation.findings, ())
    assert "without a DataLoader" in note
    pinned = Candidate("pin-memory", "pin_memory=True", "loader-pin", {}, (), 1.0)
    assert _copies_note(explanation.findings, (pinned,)) == []
    assert _sentence(40.0, (), None, (note,)).startswith("Nothing was tried")
    assert _sentence(40.0, (), None, ()) == "No change was measured."
