"""Only changes that make sense for what was found are tried, and those that need a GPU only with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.instruments.why import invented
from tests.instruments.why.invented_gpu import operation, window, with_gpu

from ownlab.instruments.why.code_change import CodeChanges, read_snippet
from ownlab.instruments.why.explanation import explain
from ownlab.instruments.why.records import ModelFacts, Optimizer, Place, TrialFacts
from ownlab.instruments.why.rule import Case
from ownlab.instruments.why.step_model import StepModel
from ownlab.instruments.why.trials.candidates import Candidate, candidates_for, gpu_note, merge
from ownlab.instruments.why.trials.code_edits import Edit, call_name, edit_arguments, edit_code, insert_line

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
