"""Random notebooks whose outputs depend only on the seed, whatever the timing."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Script", "make_script"]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

# Used by all cells. `nap` spreads the outputs over time, so that interruptions fall between them.
FIRST = """
import base64, contextvars, getpass, os, pathlib, subprocess, sys, threading, time
from IPython.display import HTML, Image, Markdown, clear_output, display, update_display
def say(*words, to=sys.stdout, end="\\n"):
    print(*words, file=to, end=end, flush=True)
def nap(ms):
    time.sleep(ms / 1000 * SLOW)
def flush():
    sys.stdout.flush()
    sys.stderr.flush()
say("ready")
"""


class Script(NamedTuple):
    """A notebook and how it is run."""

    seed: int
    cells: list[str]
    groups: list[list[int]]  # cells that are sent at once
    gates: dict[int, str]  # group -> a file that is created once all its cells have been received
    waits: list[bool]  # whether the group is sent only after the previous one has ended
    timed: bool  # metadata.execution is recorded
    asks: bool  # some cell waits for input

    def notebook(self, kernel: str) -> dict[str, Any]:
        """The notebook as a file that was never run."""
        cells: list[dict[str, Any]] = []
        for number, source in enumerate(self.cells):
            cell = {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": source}
            cells.append({**cell, "execution_count": None, "outputs": []})
        cells.insert(1, {"cell_type": "markdown", "id": "words", "metadata": {}, "source": "# Words"})
        return {
            "cells": cells,
            "metadata": {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.displays: list[str] = []  # ids that some cell before has shown
        self.outputs: list[str] = []  # names of Output widgets that captured
        self.threads: list[str] = []
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def ms(self, most: int = 120) -> int:
        return self.random.choice((0, 1, self.random.randint(1, most)))

    def n(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


def _prints(make: _Maker) -> str:
    word = make.name("line")
    return f"for i in range({make.n(1, 20)}):\n    say('{word}', i)\n    nap({make.ms()})\n"


def _burst(make: _Maker) -> str:
    word = make.name("burst")
    return f"for i in range({make.n(50, 300)}):\n    say('{word}', i)\nnap({make.ms()})\n"


def _big(make: _Maker) -> str:
    word = make.name("big")
    return f"print('{word}\\n' * {make.n(1000, 20000)}, flush=True)\nnap({make.ms()})\n"


def _carriage(make: _Maker) -> str:
    word = make.name("turn")
    end = make.random.choice(("", "\\n", "\\r", "ab\\b\\bX\\n", "\\b\\b"))
    return (
        f"for i in range({make.n(2, 30)}):\n    say('\\r{word}', i, '.' * (9 - i % 9), end='')\n    nap({make.ms(50)})\n"
        f"say('{end}', end='')\n"
    )


def _stderr(make: _Maker) -> str:
    word = make.name("err")
    return (
        f"for i in range({make.n(1, 8)}):\n    say('{word} out', i)\n    say('{word} err', i, to=sys.stderr)\n"
        f"    nap({make.ms()})\n"
    )


def _tqdm(make: _Maker) -> str:
    return (
        "from tqdm import tqdm\n"
        f"for i in tqdm(range({make.n(3, 25)}), desc='{make.name('bar')}', mininterval=0, miniters=1, ncols=50,"
        f" bar_format='{{desc}} {{bar}}{{n_fmt}}/{{total_fmt}}'):\n    nap({make.ms(80)})\n"
    )


def _rich(make: _Maker) -> str:
    statement = make.random.choice(
        (
            f"display(HTML('<b>{make.name('html')}</b>'))",
            f"display(Markdown('*{make.name('mark')}*'), metadata={{'a': {{'b': 1}}}})",
            f"display(Image(base64.b64decode('{PIXEL}'), width={make.n(1, 50)}))",
            f"display({{'text/plain': '{make.name('raw')}', 'application/json': {{'x': [1, 2]}}}}, raw=True)",
        )
    )
    return f"for i in range({make.n(1, 4)}):\n    {statement}\n    nap({make.ms()})\n"


def _display_id(make: _Maker) -> str:
    name = f"{make.name('shown')}-{make.seed}"
    make.displays.append(name)
    again = f"display(HTML('twice'), display_id='{name}')\n" if make.n(0, 2) == 0 else ""
    return (
        f"display(HTML('first'), display_id='{name}')\nnap({make.ms()})\n{again}"
        f"for i in range({make.n(0, 6)}):\n    update_display(HTML(f'step {{i}}'), display_id='{name}')\n    nap({make.ms()})\n"
    )


def _update_other(make: _Maker) -> str:
    if not make.displays:
        return _display_id(make)
    name = make.random.choice(make.displays)
    word = make.name("later")
    return f"for i in range({make.n(1, 6)}):\n    update_display(HTML(f'{word} {{i}}'), display_id='{name}')\n    nap({make.ms()})\n"


def _clear(make: _Maker) -> str:
    word, wait = make.name("cleared"), make.random.choice((True, False))
    last = f"clear_output(wait={make.random.choice((True, False))})\n" if make.n(0, 2) == 0 else ""
    return (
        f"for i in range({make.n(1, 8)}):\n    say('{word}', i)\n    display(HTML(f'{word} {{i}}'))\n    nap({make.ms()})\n"
        f"    clear_output(wait={wait})\nsay('{word} after')\n{last}"
    )


def _result(make: _Maker) -> str:
    return make.random.choice((f"{make.n(1, 999)} + 1\n", f"HTML('<i>{make.name('result')}</i>')\n", "None\n"))


def _pager(make: _Maker) -> str:
    return f"nap({make.ms()})\n{make.random.choice(('len?', 'print?'))}\n"


def _system(make: _Maker) -> str:
    word = make.name("sub")
    shell = f"get_ipython().system('for n in 1 2 3; do echo {word} $$n; sleep 0.0{make.n(1, 9)}; done')\n"
    piped = (
        f"child = subprocess.Popen(['sh', '-c', 'echo {word}; sleep 0.1; echo end'], stdout=subprocess.PIPE, text=True)\n"
        "for line in child.stdout:\n    say('from a child:', line, end='')\n"
    )
    return make.random.choice((shell, piped))


def _thread(make: _Maker) -> str:
    word = make.name("thread")
    return (
        f"def work():\n    for i in range({make.n(2, 10)}):\n        say('{word}', i)\n        nap({make.ms()})\n"
        "one = threading.Thread(target=work)\none.start()\none.join()\n"
    )


def _background(make: _Maker) -> str:
    """A thread that keeps printing into its cell while later ones run, as an asyncio task does; the last cell waits."""
    name = make.name("behind")
    make.threads.append(name)
    return (
        f"def work():\n    for i in range({make.n(5, 25)}):\n        nap({make.n(5, 120)})\n        say('{name}', i)\n"
        f"{name} = threading.Thread(target=contextvars.copy_context().run, args=(work,))\n{name}.start()\n"
    )


def _progress(make: _Maker) -> str:
    name = make.name("bar")
    return (
        "import ipywidgets\n"
        f"{name} = ipywidgets.IntProgress(max={make.n(5, 20)}, description='{name}')\n"
        f"label = ipywidgets.Label('begin')\ndisplay(ipywidgets.HBox([{name}, label]))\n"
        f"for i in range({name}.max):\n    {name}.value = i + 1\n    label.value = f'step {{i}}'\n    nap({make.ms(80)})\n"
    )


def _output_widget(make: _Maker) -> str:
    name = make.name("out")
    make.outputs.append(name)
    clears = f"    {name}.clear_output(wait={make.random.choice((True, False))})\n" if make.n(0, 2) == 0 else ""
    return (
        f"import ipywidgets\n{name} = ipywidgets.Output()\ndisplay({name})\nsay('{name} before')\n"
        f"with {name}:\n    for i in range({make.n(2, 12)}):\n        say('{name} inside', i)\n        nap({make.ms()})\n"
        f"    display(HTML('{name} rich'))\n{clears}"
        f"say('{name} between')\nnap({make.ms()})\nwith {name}:\n    say('{name} again')\nsay('{name} after')\n"
    )


def _output_later(make: _Maker) -> str:
    if not make.outputs:
        return _output_widget(make)
    name = make.random.choice(make.outputs)
    return (
        f"if '{name}' in globals():\n    with {name}:\n        say('from a later cell {make.name('l')}')\n"
        f"        nap({make.ms()})\n"
    )


def _appended(make: _Maker) -> str:
    name = make.name("app")
    return (
        f"import ipywidgets\n{name} = ipywidgets.Output()\ndisplay({name})\nfor i in range({make.n(1, 6)}):\n"
        f"    {name}.append_stdout(f'{name} {{i}}\\n')\n    nap({make.ms()})\n"
    )


# Input requests and outputs use different sockets: the output before a request gets time to arrive first, and names
# the request, so that a plain page can wait for it.
def _ask(make: _Maker) -> str:
    word = make.name("question")
    return f"say('{word} asks')\nnap(300)\nsay('it was', input('{word}?'))\nnap({make.ms()})\nsay('{word} done')\n"


def _ask_twice(make: _Maker) -> str:
    word = make.name("question")
    asks = f"say(f'{word} {{i}} asks')\n    nap(300)\n    say('{word}', len(input(f'{word} {{i}}')), i)"
    return f"for i in range(2):\n    {asks}\n"


def _ask_secret(make: _Maker) -> str:
    word = make.name("secret")
    return f"say('{word} asks')\nnap(300)\nsay('{word} is', len(getpass.getpass('{word}:')), 'long')\n"


Maker = Callable[[_Maker], str]
PLAIN: tuple[Maker, ...] = (
    _prints, _prints, _burst, _big, _carriage, _stderr, _tqdm, _rich, _display_id, _update_other, _clear, _result,
    _pager, _system, _thread, _background,
)  # fmt: skip
WIDGETS: tuple[Maker, ...] = (_progress, _output_widget, _output_later, _appended)
ASKING: tuple[Maker, ...] = (_ask, _ask_twice, _ask_secret)


def make_script(seed: int, *, asking: bool = True, widgets: bool = True, most: int = 9, slow: float = 1.0) -> Script:
    """The notebook of a seed; `slow` makes its naps longer."""
    make = _Maker(seed)
    kinds = PLAIN + (WIDGETS if widgets else ()) + (ASKING if asking else ())
    sources = [f"SLOW = {slow}{FIRST}"]
    for _ in range(make.n(3, most)):
        parts = [make.random.choice(kinds) for _ in range(make.n(1, 3))]
        # The cell's own output may come before or after.
        parts = next(([alone] for alone in (_background, _pager) if alone in parts), parts)
        # Each part prints everything before the next begins; a bar's last line and a child's output wait in a buffer.
        sources.append("flush()\n".join(part(make) for part in parts))
    failing = make.n(2, len(sources)) if make.n(0, 2) == 0 else 0
    if failing:
        sources.insert(failing, "")  # filled below, when it is known which group it is in
    sources.append(
        "".join(f"if '{name}' in globals():\n    {name}.join()\n" for name in make.threads) + "say('the end')\n"
    )
    groups = _groups(make, len(sources))
    gates: dict[int, str] = {}
    if failing:
        group = next(number for number, members in enumerate(groups) if failing in members)
        gates[group] = f"gate-{seed}-{group}"
        sources[failing] = _failing(make, gates[group])
    if failing and failing in groups[-1]:
        groups.append([len(sources) - 1])  # the last one is run again: it was aborted
    waits = [number == 0 or number - 1 in gates or make.n(0, 2) == 0 for number in range(len(groups))]
    asks = any("input(" in source or "getpass(" in source for source in sources[1:])
    return Script(seed, sources, groups, gates, waits, make.n(0, 1) == 1, asks)


def _groups(make: _Maker, count: int) -> list[list[int]]:
    cuts = sorted(make.random.sample(range(1, count), min(make.n(0, 3), count - 1)))
    return [list(range(begin, end)) for begin, end in zip([0, *cuts], [*cuts, count], strict=True)]


def _failing(make: _Maker, gate: str) -> str:
    """It fails once everything that is to be aborted with it is in the kernel's queue."""
    word = make.name("fails")
    return (
        f"say('{word}')\nwhile not pathlib.Path('{gate}').exists():\n    nap(20)\nnap(200)\n"
        f"raise ValueError('{word}')\n"
    )
