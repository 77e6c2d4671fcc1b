"""What commands print of recorded machines, streams and runs, in one language: `python -m tests.shown_outputs zh_CN`.

The language of a process is chosen before anything is imported that makes a Text, so another language needs another process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from rich.console import Console

from ownlab.languages import translations
from ownlab.text import use_translations

__all__ = ["outputs_in"]

TESTS = Path(__file__).resolve().parent
WIDTH = 80
# Arguments of commands that read nothing of this machine.
COMMANDS = (
    "--help",
    "doctor --help",
    "why --help",
    "fit --help",
    "top --help",
    "run --help",
    "env --help",
    "data --help",
    "data pack --help",
    "gpus advise --help",
    "clouds cost --help",
    "runtimes stop --help",
    "doctor --explain driver-old",
    "why --explain no-workers",
    "doctor --explain drver",
    "gpus A100",
    "gpus ladder",
    "clouds colab",
    "clouds cost --hours 40 --on T4",
    "bogus",
    "up --bogus",
    "top --interval x",
    "fit",
    "why",
    "run missing.ipynb",
    "data pack x",
    "data unpack missing.zip",
    "bench --memory much",
    "gpus nosuch",
    "history missing.ipynb",
    "env remove nosuch",
    "runtimes stop missing",
)


@cache
def outputs_in(language: str) -> dict[str, str]:
    """Return what is shown in a language, by names."""
    environ = {name: value for name, value in os.environ.items() if name not in ("OWNLAB_LANG", "COLUMNS")}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.shown_outputs", language],
        env={**environ, "OWNLAB_LANG": language, "TZ": "UTC", "COLUMNS": str(WIDTH), "PYTHONIOENCODING": "utf-8"},
        cwd=TESTS.parent,
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    outputs: dict[str, str] = json.loads(ran.stdout)
    return outputs


def _main(language: str) -> None:
    use_translations(translations(language))
    # The real stdout gets the document alone.
    document = json.dumps(dict(_outputs()))
    sys.__stdout__.write(document)  # type: ignore[union-attr]  # it is open


def _outputs() -> Iterator[tuple[str, str]]:
    for name, show in _recorded().items():
        sheet = io.StringIO()
        show(Console(file=sheet, width=WIDTH, highlight=False, color_system=None))
        yield name, _stripped(sheet.getvalue())
    yield "top-screen", _stripped(_screen())
    for arguments in COMMANDS:
        yield f"ownlab {arguments}", _stripped(_command(arguments.split()))


def _stripped(shown: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in shown.splitlines())


def _recorded() -> dict[str, Callable[[Console], None]]:
    from tests.instruments.fit.test_measurement_terminal import a_fit
    from tests.instruments.top.scenes import scene
    from tests.lab.terminal.test_runtimes import USAGE, snapshot

    from ownlab.instruments.doctor.diagnosis import case_of, diagnose
    from ownlab.instruments.doctor.rules import RULES
    from ownlab.instruments.doctor.terminal import show_diagnosis, show_rule_list
    from ownlab.instruments.fit.terminal import show_fit
    from ownlab.instruments.top.records import TopReading
    from ownlab.instruments.top.terminal import show_reading
    from ownlab.instruments.top.verdict_window import Window
    from ownlab.instruments.why.collection import load_evidence
    from ownlab.instruments.why.explanation import explain
    from ownlab.instruments.why.terminal import show_explanation
    from ownlab.lab.terminal.runtimes import show_runtimes, show_usage
    from ownlab.machine.machine_file import load_machine
    from ownlab.machine.terminal import show_machine
    from ownlab.render.console import console

    console()  # lets Rich break lines between Chinese characters

    def doctor(name: str) -> Callable[[Console], None]:
        machine = load_machine(TESTS / "machines" / f"{name}.json")
        return lambda out: show_diagnosis(diagnose(case_of(machine)), out)

    def why(name: str) -> Callable[[Console], None]:
        evidence = load_evidence(str(TESTS / "instruments" / "why" / "recorded" / f"{name}.json"))
        return lambda out: show_explanation(explain(evidence), out)

    def top(*kinds: str) -> Callable[[Console], None]:
        window, samples = Window(30.0), scene(40, *kinds)
        for each in samples:
            window.add(each)
        return lambda out: show_reading(TopReading(samples[-1], window.verdicts()), out)

    return {
        "doctor-v100-driver418": doctor("v100-driver418"),
        "doctor-h200": doctor("h200"),
        "machine-cpu": lambda out: show_machine(load_machine(TESTS / "machines" / "cpu.json"), out),
        "rules": lambda out: show_rule_list(RULES, out),
        "fit": lambda out: show_fit(a_fit(), out),
        "top": top("product", "small"),
        "top-no-gpu": top(),
        "why-no-workers": why("no-workers"),
        "why-straggler": why("straggler"),
        "runtimes": lambda out: show_runtimes(snapshot("group"), out),
        "usage": lambda out: show_usage(USAGE, out),
    }


def _screen() -> str:
    """The lines of the full screen of `ownlab top`, with one card zoomed."""
    import asyncio

    from tests.instruments.top.scenes import scene
    from tests.instruments.top.screen.test_app import screen_of

    async def run() -> str:
        async with screen_of(scene(40, "product", "old"), size=(WIDTH, 24)) as screen:
            app = screen.app
            while not getattr(app.screen_stack[0], "view").ended:  # noqa: B009  # of the main screen
                await asyncio.sleep(0.02)
            await screen.press("z")
            await screen.pause()
            strips = app.screen._compositor.render_strips()
            return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    return asyncio.run(run())


def _command(arguments: list[str]) -> str:
    """Run a command in this process, and return what it prints on both streams."""
    from ownlab.cli import main

    printed = io.StringIO()
    sys.argv = ["ownlab", *arguments]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        main._run()
    return printed.getvalue()


if __name__ == "__main__":
    _main(sys.argv[1])
