"""The pictures of terminals in README and docs, drawn from recorded facts: `python -m tests.render.pictures zh_CN` prints them as JSON.

The language of a process is chosen before anything is imported that makes a Text, so another language needs another process.
"""

from __future__ import annotations

import html
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.cells import cell_len
from rich.console import Console

from ownlab.languages import translations
from ownlab.text import use_translations

__all__ = ["FOLDER", "NAMES", "draw"]

TESTS = Path(__file__).resolve().parents[1]
FOLDER = TESTS.parent / "docs" / "images"
NAMES = ("doctor", "why", "data-inspect", "data-bench")
_TEXT = re.compile(r'textLength="([\d.]+)"([^>]*>)([^<]*)<')


def draw(name: str) -> str:
    """Return a picture as SVG."""
    # The facts of pytorch/pytorch#150733, and real runs: a classifier of JPEG files on two cores, whose DataLoader has no workers; a zip of
    # 2,633 drawn JPEGs, and what was packed of it, on two cores that were shared with other work.
    command, show = {
        "doctor": ("ownlab doctor --from report.txt", _doctor),
        "why": ("ownlab why python train.py", _why),
        "data-inspect": ("ownlab data inspect data/stripes.zip --sheet sheet.png", _data_inspect),
        "data-bench": ("ownlab data bench packed --need 3000", _data_bench),
    }[name]
    return _drawn(name, command, show)


def _doctor(out: Console) -> None:
    from ownlab.instruments.doctor.diagnosis import case_of, diagnose
    from ownlab.instruments.doctor.terminal import show_diagnosis
    from ownlab.machine.machine_file import load_machine

    show_diagnosis(diagnose(case_of(load_machine(TESTS / "machines" / "rtx5090d.json"))), out)


def _why(out: Console) -> None:
    from ownlab.instruments.why.collection import load_evidence
    from ownlab.instruments.why.explanation import explain
    from ownlab.instruments.why.terminal import show_explanation

    evidence = load_evidence(str(TESTS / "instruments" / "why" / "recorded" / "no-workers.json"))
    show_explanation(explain(evidence), out)


def _data_inspect(out: Console) -> None:
    from ownlab.instruments.data.inspection.records import Inspection
    from ownlab.instruments.data.inspection.terminal import show_inspection

    show_inspection(msgspec.json.decode(_recorded("inspection.json"), type=Inspection), out)


def _data_bench(out: Console) -> None:
    from ownlab.instruments.data.rates.assessment import assess
    from ownlab.instruments.data.rates.records import Measured
    from ownlab.instruments.data.rates.terminal import show_data_bench

    show_data_bench(assess(msgspec.json.decode(_recorded("rates.json"), type=Measured), 3000), out)


def _recorded(name: str) -> bytes:
    return (TESTS / "instruments" / "data" / "recorded" / name).read_bytes()


def _drawn(name: str, command: str, show: Callable[[Console], None]) -> str:
    from ownlab.render.console import console

    console()  # lets Rich break lines between Chinese characters
    out = Console(file=io.StringIO(), record=True, width=116, highlight=False, force_terminal=True)
    out.print(f"$ {command}", style="dim")
    show(out)
    drawn = out.export_svg(title=" ".join(command.split()[:2]), unique_id=name, font_aspect_ratio=0.61)
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    return "".join(f"{line.rstrip()}\n" for line in _TEXT.sub(_with_width, drawn).splitlines())


def _with_width(text: re.Match[str]) -> str:
    """Rich gives a Chinese character the width of a letter."""
    words = html.unescape(text[3])
    cells = cell_len(words)
    if cells <= len(words):  # a line break is nothing wide
        return text[0]
    return f'textLength="{float(text[1]) * cells / len(words):g}"{text[2]}{text[3]}<'


if __name__ == "__main__":
    use_translations(translations(sys.argv[1]))
    sys.stdout.write(json.dumps({each: draw(each) for each in NAMES}))
