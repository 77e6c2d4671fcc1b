"""`ownlab fit` beside what others say of the same models: parameters and FLOPs, a step's memory, and what a prediction costs.

    python -m benchmarks.fit --peers PYTHON [--truth FILE.jsonl --configurations FOLDER]

PYTHON has torch, transformers, torchvision and the peers (`fit_peers.py` names them); FILE has one line for each
configuration that was measured on a card: name, allocated, reserved and device in bytes. What was found is kept in fit.json, from
which `benchmarks.run` writes RESULTS.md. Without --truth the memory that was compared before stays.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.fit_by_hand import BY_HAND
from benchmarks.rows import row

__all__ = ["fit_lines", "fit_rows"]

HERE = Path(__file__).resolve().parent
KEPT = HERE / "fit.json"
GUEST = HERE.parent / "src/ownlab_guest/launch.py"
TORCH = os.environ.get("OWNLAB_TORCH_PYTHON", str(HERE.parent / ".venv-torch/bin/python"))
MIB = 1024**2
Told = dict[str, Any]


# -- what a prediction costs


def fit_rows(rounds: int) -> list[Told]:
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
        "said = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True).stdout\n"
        "assert not said.startswith(b'{\"error'), said\n"
        "print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)\n"
    )
    said = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True).stdout
    seconds, size = said.split()
    return float(seconds), int(size)


# -- parameters and FLOPs


def count(peers: str) -> Told:
    """By hand, by us and by the peers."""
    from ownlab.instruments.fit.asking import ask_trace
    from ownlab.instruments.fit.records import Request

    told = _ask(peers, "counts")
    models = {}
    for name, (title, by_hand) in BY_HAND.items():
        request = Request(target=f"{HERE / 'fit_models.py'}:{name}", train=False)
        trace = ask_trace(request, peers, deadline=300)
        ours = {"parameters": trace.parameters.total, "flops": trace.flops.forward}
        models[name] = {"title": title, "hand": by_hand()._asdict(), "tools": {"ownlab": ours, **told["models"][name]}}
    return {"versions": told["versions"], "models": models}


def _ask(peers: str, *arguments: str) -> Told:
    command = [peers, str(HERE / "fit_peers.py"), *arguments]
    told: Told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return told


# -- memory


def compare_memory(peers: str, truth: Path, configurations: Path) -> Told:
    """Our prediction, accelerate's and the plain formula against what a card took; what is held back is left alone."""
    measured = {}
    for line in truth.read_text().splitlines():
        if '"held_back": true' not in line:
            found = json.loads(line)
            if "error" not in found:
                measured[found["name"]] = found
    told = _ask(peers, "memory", str(configurations), *measured)
    rows = {}
    for name, real in measured.items():
        ours = _predicted(name, configurations, peers)
        taken = {kind: real[kind] for kind in ("allocated", "reserved", "device")}
        rows[name] = {"measured": taken, "ownlab": ours, **told["configurations"][name]}
        print(name, rows[name], flush=True)
    one = next(iter(measured.values()))
    return {"versions": told["versions"], "card": one["card"], "torch": one["torch"], "rows": rows}


_OF_REQUEST = ("train", "optimizer", "fused", "precision", "checkpointing", "channels_last", "accumulate", "steps")
# Prints the options of one configuration; its module needs torch, and so is read where torch is.
_OPTIONS = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); import configurations as c; one = c.BY_NAME[sys.argv[2]]; "
    "print(json.dumps({name: getattr(one, name) for name in sys.argv[3:]}))"
)
_BUILD = """
import sys
sys.path[:0] = [{here!r}, {folder!r}]
import fit_models  # it makes torchvision importable
from configurations import BY_NAME
def build():
    return BY_NAME[{name!r}].build(BY_NAME[{name!r}])
"""


def _predicted(name: str, configurations: Path, python: str) -> Told:
    from ownlab.instruments.fit.asking import ask_trace
    from ownlab.instruments.fit.predict import predict
    from ownlab.instruments.fit.records import Request

    command = [python, "-c", _OPTIONS, str(configurations.resolve()), name, *_OF_REQUEST]
    options = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.py"
        path.write_text(_BUILD.format(here=str(HERE), folder=str(configurations.resolve()), name=name))
        request = Request(target=f"{path}:build", **options)
        peak = predict(ask_trace(request, python, deadline=300), request).peak
    return {"allocated": peak.allocated_bytes, "reserved": peak.reserved_bytes, "device": peak.device_bytes}


# -- what RESULTS.md says of it


def fit_lines() -> list[str]:
    """The tables, from what is kept."""
    if not KEPT.exists():
        return []
    kept = json.loads(KEPT.read_text())
    lines = ["", "## What a model needs, without a GPU", ""]
    lines += _count_lines(kept["counts"], kept["date"])
    return lines + (_memory_lines(kept["memory"]) if "memory" in kept else [])


def _count_lines(counts: Told, when: str) -> list[str]:
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


def _memory_lines(memory: Told) -> list[str]:
    ways = ("accelerate", "formula")
    lines = [
        "",
        f"Peak memory of a step, predicted on a CPU and measured on one {memory['card']} (torch {memory['torch']}). accelerate:",
        "what `accelerate estimate-memory` says for training with Adam, or for inference. Formula: weights, gradients and",
        'optimizer state for each parameter, and torchinfo\'s "Forward/backward pass size". Both are compared with what tensors',
        f"took (allocated), which is what they mean. Percent. {_versions(memory['versions'])}. These configurations were looked at",
        "while the rules for what libraries take were made; every third of the set was not, and is not here.",
        "",
        "| configuration | allocated, MiB | ownlab | accelerate | formula | reserved, MiB | ownlab | device, MiB | ownlab |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    off: dict[str, list[float]] = {}
    for name, found in memory["rows"].items():
        real, ours = found["measured"], found["ownlab"]
        cells = []
        for kind in ("allocated", "reserved", "device"):
            cells += [f"{real[kind] / MIB:,.0f}", _apart(ours, kind, real[kind])]
            off.setdefault(kind, []).append(abs(ours[kind] / real[kind] - 1))
            if kind == "allocated":
                cells += [_apart(found[way], "bytes", real[kind]) for way in ways]
        for way in ways:
            if "bytes" in found[way]:
                off.setdefault(way, []).append(abs(found[way]["bytes"] / real["allocated"] - 1))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    said = [f"{way} {_percent(statistics.median(found))} and {_percent(max(found))}" for way, found in off.items()]
    return [*lines, "", f"Off at the median and at most: {'; '.join(said)}."]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{tool} {version}" for tool, version in versions.items())


def _apart(told: Told, part: str, real: float) -> str:
    if "error" in told:
        return "fails"
    apart = 100 * (told[part] / real - 1)
    return "0" if told[part] == real else f"{apart:+.2f}"


def main() -> None:
    """Ask everybody, and keep what they said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=TORCH, help="a Python with torch and the peers")
    parser.add_argument("--truth", type=Path, help="what was measured on a card")
    parser.add_argument("--configurations", type=Path, help="the folder of configurations.py")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept |= {"date": date.today().isoformat(), "counts": count(options.peers)}
    if options.truth is not None:
        kept["memory"] = compare_memory(options.peers, options.truth, options.configurations)
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    print("\n".join(fit_lines()))


if __name__ == "__main__":
    main()
