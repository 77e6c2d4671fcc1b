"""`ownlab fit` compared with other tools on the same models: parameters and FLOPs, memory of a step, and the cost of a prediction.

    python -m benchmarks.fit --peers PYTHON [--only counts|memory|ours]

PYTHON has torch, transformers, torchvision and the other tools (`fit_peers.py` names them). Measurements on a card are in
tests_gpu/fit/measured-h200.json; transformers should have the version that is named there. Results are stored in fit.json, from
which `benchmarks.run` writes RESULTS.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.fit_by_hand import BY_HAND
from benchmarks.rows import row

__all__ = ["fit_lines", "fit_rows"]

HERE = Path(__file__).resolve().parent
KEPT = HERE / "fit.json"
GUEST = HERE.parent / "src/ownlab_guest/launch.py"
TORCH = os.environ.get("OWNLAB_TORCH_PYTHON", str(HERE.parent / ".venv-torch/bin/python"))
CONFIGURATIONS = HERE.parent / "tests_gpu/fit"
MIB = 1024**2
WAYS = ("accelerate", "formula")
MARKS = {"open": "", "once": " *", "later": " †"}
# Which configurations the rules were made with, and what the first look at the others showed.
MADE_WITH = (
    "No mark: the rules for what libraries take were made with it in view. \\*: held back, and looked at once when the rules were done:",
    "11 of 13 were within 0.1 % allocated and 4.8 % reserved, as the others; a bidirectional GRU reserved 16 % more than predicted",
    "(cuDNN's workspace was 3.5 % larger, and so fell into a block of its own), and ResNet-50 in fp16 took 7 % less, because its",
    "measured run had left out every step of the optimizer. †: nine that were chosen after that look, and before they were measured:",
    "eight were within 0.3 % and 3.1 %; RegNet was predicted as another model, because its widths, which it computes by tensors, had",
    "been guessed. T5, which had not been measured before, took 17 % more: no fused kernel of attention takes its bias of positions as",
    "transformers 5.17 lays it out. All four causes were fixed, and the table shows the present code; the rules for convolutions in 16",
    "bits were then made with RegNet in view. As a cap (all that torch may reserve) the upper end of the band sufficed on the card for",
    "all but the GRU and RegNet as they were predicted then; both had reserved less than the upper end that is predicted now.",
)
Results = dict[str, Any]


# -- what a prediction costs


def fit_rows(rounds: int) -> list[Results]:
    """Seconds and memory of one prediction, beside those of importing what the model is made of."""
    rows = []
    for target, title, library in (
        ("gpt2", "GPT-2 small", "from transformers import GPT2LMHeadModel"),
        ("resnet50", "ResNet-50", "import torchvision"),
    ):
        imports = [TORCH, "-c", f"import sys; sys.path.insert(0, {str(HERE)!r}); import fit_models; {library}"]
        pairs = [(_trace(target), _spent(imports)) for _ in range(max(1, rounds // 3))]
        rows.append(
            row(f"fit: {title}, three training steps traced / its imports", [(a[0], b[0]) for a, b in pairs], "10 s")
        )
        sizes = [(ours[1] / MIB, theirs[1] / MIB) for ours, theirs in pairs]
        rows.append(row(f"fit: {title}, memory of the prediction / of its imports", sizes, "1024 MiB above", "MiB"))
    return rows


def _trace(target: str) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "request.json"
        path.write_text(json.dumps({"target": f"{HERE / 'fit_models.py'}:{target}"}))
        return _spent([TORCH, str(GUEST), "fit.trace", str(path)])


def _spent(command: list[str]) -> tuple[float, int]:
    """Wall time and the most memory that the command had, in a process that starts nothing else."""
    code = (
        "import resource, subprocess, sys, time\n"
        "begin = time.perf_counter()\n"
        "output = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True).stdout\n"
        "assert not output.startswith(b'{\"error'), output\n"
        "print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True).stdout
    seconds, size = answer.split()
    return float(seconds), int(size)


# -- parameters and FLOPs


def count(peers: str) -> Results:
    """Count by hand, with ownlab and with the other tools."""
    from ownlab.instruments.fit.guest_client import ask_trace
    from ownlab.instruments.fit.records import Request

    reported = _ask(peers, "counts")
    models = {}
    for name, (title, by_hand) in BY_HAND.items():
        request = Request(target=f"{HERE / 'fit_models.py'}:{name}", train=False)
        trace = ask_trace(request, peers, deadline=300)
        ours = {"parameters": trace.parameters.total, "flops": trace.flops.forward}
        models[name] = {
            "title": title,
            "hand": by_hand()._asdict(),
            "tools": {"ownlab": ours, **reported["models"][name]},
        }
    return {"versions": reported["versions"], "models": models}


def _ask(peers: str, *arguments: str) -> Results:
    command = [peers, str(HERE / "fit_peers.py"), *arguments]
    reported: Results = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return reported


# -- memory


def compare_memory(peers: str, before: Results | None) -> Results:
    """Our prediction, accelerate's and the plain formula against what a card took; the peers' may be those of before."""
    measured = json.loads((CONFIGURATIONS / "measured-h200.json").read_text())
    taken = measured.pop("configurations")
    sys.path.insert(0, str(CONFIGURATIONS))
    known = importlib.import_module("configurations").BY_NAME
    if before is None:
        reported = _ask(peers, "memory", str(CONFIGURATIONS), *taken)
    else:
        reported = {"versions": before["versions"], "configurations": before["rows"]}
    with ThreadPoolExecutor(2) as pool:
        ours = dict(zip(taken, pool.map(lambda name: _predicted(known[name], peers), taken), strict=True))
    rows = {
        name: {"measured": real, "ownlab": ours[name], **{way: reported["configurations"][name][way] for way in WAYS}}
        for name, real in taken.items()
    }
    return {"versions": reported["versions"], **measured, "rows": rows}


def _predicted(configuration: Any, python: str) -> Results:
    from ownlab.instruments.fit.guest_client import ask_trace
    from ownlab.instruments.fit.prediction import predict
    from ownlab.instruments.fit.records import Request

    request = Request(target=f"{CONFIGURATIONS / 'models.py'}:{configuration.name}", **configuration.request)
    fit = predict(ask_trace(request, python, deadline=300), request)
    return {
        "allocated": fit.peak.allocated_bytes,
        "reserved": fit.peak.reserved_bytes,
        "device": fit.peak.device_bytes,
        "band": [fit.band.reserved_low_bytes, fit.band.reserved_high_bytes],
        "look": configuration.look,
    }


# -- what RESULTS.md says of it


def fit_lines() -> list[str]:
    """The tables, from what is kept."""
    if not KEPT.exists():
        return []
    kept = json.loads(KEPT.read_text())
    lines = ["", "## What a model needs, without a GPU", ""]
    lines += _count_lines(kept["counts"], kept["date"])
    return (
        lines
        + (_memory_lines(kept["memory"]) if "memory" in kept else [])
        + _first_look_lines(FIRST)
        + _first_look_lines(SECOND)
    )


class Look(NamedTuple):
    """A first look at steps that were chosen before they were predicted or measured, and what was learnt from it."""

    file: str
    title: str
    how: tuple[str, ...]
    causes: tuple[str, ...]


FIRST = Look(
    "unseen-h200.json",
    "Twenty steps that nobody had seen",
    (
        "Chosen and committed before any of them was predicted or",
        "measured (`tests_gpu/fit/unseen.py`), and looked at once, after the rules had been made on other shapes. Off, in percent.",
    ),
    (
        "Causes that were found and corrected after this look, so that the present code differs from the table: flash attention was",
        "assumed for heads whose last dimension is not the innermost one (denoiser), the copy was missing that a sum of flags makes",
        "(neighbours), and partial sums of convolutions (wide_unet, volume_unet, video_factored) and of attention in float32",
        "(masked_patches) were some MiB off, so that the allocator took other blocks.",
    ),
)
SECOND = Look(
    "unseen-again-h200.json",
    "Twenty more steps that nobody had seen",
    (
        "Chosen and committed before any of them was predicted or",
        "measured (`tests_gpu/fit/unseen_again.py`); predictions were committed before the measurement was seen, that of query_detector after it",
        "had been asked for: its trace had ended in a crash until then. Off, in percent.",
    ),
    (
        "Causes that were corrected after this look, so that the present code differs from the table: the band ended 0.1 % above the",
        "prediction (query_detector), and gradients of indexing are sorted and copied first (cloud_graph). Not corrected: a GRU's cell is",
        "one kernel on a GPU (cloud_graph), partial sums of convolutions (centre_heads, image_translation), and the gradient of an",
        "embedding (latent_queries).",
    ),
)


def _first_look_lines(look: Look) -> list[str]:
    """The first look at twenty steps that were chosen before they were predicted or measured."""
    if not (CONFIGURATIONS / look.file).exists():
        return []
    seen = json.loads((CONFIGURATIONS / look.file).read_text())
    lines = [
        "",
        f"## {look.title}",
        "",
        f"{seen['when']}, one {seen['card']}; torch {seen['torch']}, cuDNN {seen['cudnn']}. {look.how[0]}",
        *look.how[1:],
        "",
        "| step | allocated, MiB | ownlab | reserved, MiB | ownlab | width of the band | in its band |",
        "|---|---|---|---|---|---|---|",
    ]
    held, off = 0, []
    for name, step in seen["rows"].items():
        real, ours = step["measured"], step["predicted"]
        low, high = ours["band"]
        inside = low <= real["reserved"] <= high
        held += inside
        off.append(abs(ours["allocated"] / real["allocated"] - 1))
        cells = [f"{real['allocated'] / MIB:,.0f}", _apart(ours, "allocated", real["allocated"])]
        cells += [f"{real['reserved'] / MIB:,.0f}", _apart(ours, "reserved", real["reserved"])]
        cells += [_percent(high / low - 1), "yes" if inside else "no"]
        lines.append(f"| {name}{' (computed with data)' if step['computed'] else ''} | {' | '.join(cells)} |")
    few = sum(error <= 0.01 for error in off)
    total = len(seen["rows"])
    return [
        *lines,
        "",
        f"The band holds in {held} of {total}; allocated is within 1 % in {few} of {total}, {_percent(max(off))} off at worst; none is unanswered.",
        *look.causes,
    ]


def _count_lines(counts: Results, when: str) -> list[str]:
    tools = list(next(iter(counts["models"].values()))["tools"])
    lines = [
        f"{when}. Parameters and FLOPs of one forward pass of one sample, 2 for each multiply-add; tools that count",
        "multiply-adds are doubled. By hand: products, convolutions and attention (`fit_by_hand.py`). Else: how far off, in percent.",
        f"{_versions(counts['versions'])}.",
        "",
        f"| parameters | by hand | {' | '.join(tools)} |",
        f"|---|---|{'---|' * len(tools)}",
    ]
    for part, unit in (("parameters", 1), ("flops", 1e9)):
        if part == "flops":
            lines += ["", f"| GFLOP | by hand | {' | '.join(tools)} |", f"|---|---|{'---|' * len(tools)}"]
        for model in counts["models"].values():
            real = model["hand"][part]
            cells = [_apart(model["tools"][tool], part, real) for tool in tools]
            by_hand = f"{real:,}" if unit == 1 else f"{real / unit:.3f}"
            lines.append(f"| {model['title']} | {by_hand} | {' | '.join(cells)} |")
    return lines


def _memory_lines(memory: Results) -> list[str]:
    lines = [
        "",
        f"Peak memory of a step, predicted on a CPU and measured on one {memory['card']} ({memory['when']}; torch {memory['torch']},",
        f"cuDNN {memory['cudnn']}, transformers {memory['transformers']}). accelerate: what `accelerate estimate-memory` says for training",
        "with Adam, or for inference. Formula: weights, gradients and optimizer state for each parameter, and torchinfo's",
        '"Forward/backward pass size". Both are compared with what tensors took (allocated), which is what they mean. Percent.',
        f"{_versions(memory['versions'])}.",
        "",
        *MADE_WITH,
        "",
        "| configuration | allocated, MiB | ownlab | accelerate | formula | reserved, MiB | ownlab | in its band | device, MiB | ownlab |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    off: dict[str, list[float]] = {}
    for name, result in memory["rows"].items():
        real, ours = result["measured"], result["ownlab"]
        cells = []
        for kind in ("allocated", "reserved", "device"):
            cells += [f"{real[kind] / MIB:,.0f}", _apart(ours, kind, real[kind])]
            off.setdefault(kind, []).append(abs(ours[kind] / real[kind] - 1))
            if kind == "allocated":
                cells += [_apart(result[way], "bytes", real[kind]) for way in WAYS]
            if kind == "reserved":
                low, high = ours["band"]
                cells.append("yes" if low <= real[kind] <= high else "no")
        for way in WAYS:
            if "bytes" in result[way]:
                off.setdefault(way, []).append(abs(result[way]["bytes"] / real["allocated"] - 1))
        lines.append(f"| {name}{MARKS[ours['look']]} | {' | '.join(cells)} |")
    answer = [f"{way} {_percent(statistics.median(errors))} and {_percent(max(errors))}" for way, errors in off.items()]
    widest = max(high / low for low, high in (result["ownlab"]["band"] for result in memory["rows"].values()))
    return [*lines, "", f"Off at the median and at most: {'; '.join(answer)}. Widest band: {_percent(widest - 1)}."]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{tool} {version}" for tool, version in versions.items())


def _apart(reported: Results, part: str, real: float) -> str:
    if "error" in reported:
        return "fails"
    apart = 100 * (reported[part] / real - 1)
    return "0" if reported[part] == real else f"{apart:+.2f}"


def main() -> None:
    """Query all tools and keep their answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=TORCH, help="a Python with torch and the peers")
    parser.add_argument("--only", choices=("counts", "memory", "ours"), help="the rest stays as it was")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if options.only in (None, "counts"):
        kept |= {"date": date.today().isoformat(), "counts": count(options.peers)}
    if options.only != "counts":
        kept["memory"] = compare_memory(options.peers, kept["memory"] if options.only == "ours" else None)
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    print("\n".join(fit_lines()))


if __name__ == "__main__":
    main()
