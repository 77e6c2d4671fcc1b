"""Commands in a terminal of their own: what they print, what they ask, and how they end. Real processes, real signals."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.guest.colab.cells import Cells, kernel

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what a process waits for is read from /proc")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    with kernel(tmp_path_factory.mktemp("notebook")) as running:
        yield running


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """A Python script as a command."""

    def write(code: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(code)
        return f"!python {path}"

    return write


def ended(pid_file: Path) -> bool:
    """Return whether a process ends soon: it is an orphan, and its new parent has to reap it first."""
    pid = int(pid_file.read_text())
    end = time.monotonic() + 180
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_output_and_errors_come_as_one_text_and_the_status_is_kept(cells: Cells) -> None:
    ran = cells.run("!echo one; echo two >&2; echo three; exit 3\nprint(_exit_code)")
    assert ran.text == "one\ntwo\nthree\n3\n"
    assert ran.error == ""
    assert cells.run("!kill -9 $BASHPID\nprint(_exit_code)").text == "-9\n"
    ran = cells.run(
        "lines = !echo a; echo b >&2; exit 2\nlines, lines.s, _exit_code, get_ipython().getoutput('echo c', split=False)"
    )
    assert (ran.text, ran.result) == ("", "(['a', 'b'], 'a b', 2, 'c\\n')")


def test_it_is_a_terminal_of_sensible_size(cells: Cells) -> None:
    sizes = "import os, sys; print(os.get_terminal_size(), sys.stdout.isatty(), sys.stdin.isatty())"
    assert cells.run(f'!python -c "{sizes}"', answers=[]).text == "os.terminal_size(columns=80, lines=24) True True\n"
    wide = f'import os; os.environ["COLUMNS"] = "120"\n!python -c "{sizes}"\ndel os.environ["COLUMNS"]'
    assert cells.run(wide).text == "os.terminal_size(columns=120, lines=24) True False\n"


def test_output_is_shown_while_it_runs_and_letters_are_not_torn(cells: Cells, tmp_path: Path) -> None:
    go = tmp_path / "go"
    code = rf"!printf '10%%\r\xc3'; until [ -e {go} ]; do sleep 0.02; done; printf '\xa4\xff\n'"
    ran = cells.run(code, on_text=lambda text: go.touch() if "10%" in text else None)
    assert ran.text == "10%\rä\ufffd\n"


def test_captured_output_is_not_shown(cells: Cells) -> None:
    assert cells.run("%%capture kept\n!echo hidden").text == ""
    assert cells.run("kept.stdout").result == "'hidden\\n'"


def test_much_output_is_complete(cells: Cells) -> None:
    assert cells.run("lines = !seq 200000\nlen(lines), lines[-1]").result == "(200000, '200000')"
    assert cells.run("!seq 20000").text.splitlines()[-1] == "20000"


@linux
def test_a_command_that_asks_gets_an_answer(cells: Cells) -> None:
    ran = cells.run("!read -p 'Name? ' name; echo Hello, $name; cat", answers=["Ada Ä", "more", "\x04"])
    assert ran.text == "Name? Hello, Ada Ä\nmore\n"
    assert ran.asked == 3 * [("", False)]


@linux
def test_a_question_in_captured_output_is_shown_as_the_prompt(cells: Cells) -> None:
    ran = cells.run("lines = !echo one; read -p 'Name? ' name; echo $name\nlines", answers=["Ada"])
    assert (ran.asked, ran.text, ran.result) == ([("Name? ", False)], "", "['one', 'Name? Ada']")


@linux
def test_a_password_is_asked_for_as_one(cells: Cells, script: Callable[[str], str]) -> None:
    command = script("import getpass\nprint(len(getpass.getpass('Key: ')), input('Sure? '))")
    ran = cells.run(command, answers=["secret", "yes"])
    assert ran.asked == [("", True), ("", False)]
    assert ran.text == "Key: \nSure? 6 yes\n"


@linux
@pytest.mark.parametrize("wait", ["select.select([0], [], [])", "poll.poll()", "epoll.poll()", "os.read(tty, 0)"])
def test_a_program_that_waits_with_select_is_detected(cells: Cells, script: Callable[[str], str], wait: str) -> None:
    code = f"""
import os, select
tty = os.open('/dev/tty', os.O_RDWR)
poll, epoll = select.poll(), select.epoll()
poll.register(0, select.POLLIN), epoll.register(tty, select.EPOLLIN)
{wait}
print('got', os.read(tty, 100))
"""
    ran = cells.run(script(code), answers=["it"])
    assert (len(ran.asked), ran.text) == (1, "got b'it\\n'\n")


@linux
def test_a_program_that_polls_several_inputs_is_asked_after_an_unfinished_line(
    cells: Cells, script: Callable[[str], str]
) -> None:
    code = """
import select, socket, sys
one, other = socket.socketpair()
print('Proceed? (y) ', end='', flush=True)
print(select.select([0, one], [], [])[0], input())
"""
    ran = cells.run(script(code), answers=["y"])
    assert ran.asked == [("", False)]
    assert ran.text == "Proceed? (y) [0] y\n"


def test_a_busy_program_is_not_asked(cells: Cells) -> None:
    assert cells.run("!printf 'working … '; sleep 1.2; echo done", answers=[]).asked == []


def test_without_a_person_input_reads_end_of_file(cells: Cells, script: Callable[[str], str]) -> None:
    assert cells.run("!read -p 'Name? ' name; echo $? $name; cat; echo over").text.endswith("1\nover\n")
    assert "EOFError" in cells.run(script("input('Name? ')")).text
    assert "no tty" in cells.run("!(: < /dev/tty) 2> /dev/null || echo no tty").text


@linux
def test_a_program_that_finds_the_terminal_by_its_name_is_ended(cells: Cells, script: Callable[[str], str]) -> None:
    code = (
        "import os, signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\nos.read(os.open(os.ttyname(1), os.O_RDWR), 1)"
    )
    assert cells.run(script(code) + "\nprint(_exit_code)").text == (
        "\n[ended: the command waits for keys, and nobody can answer]\n-15\n"
    )


@linux
@pytest.mark.parametrize("answers", [None, []], ids=["alone", "with a person"])
def test_an_interruption_ends_the_command_and_the_cell(cells: Cells, tmp_path: Path, answers: list[str] | None) -> None:
    pids = [tmp_path / "one", tmp_path / "other"]
    code = f"!sleep 600 & echo $! > {pids[0]}; sleep 600 & echo $! > {pids[1]}; echo on; wait; echo no\nprint('no')"
    ran = cells.run(code, answers, on_text=lambda text: cells.interrupt() if text == "on\n" else None)
    assert (ran.text, ran.error) == ("on\n^C", "KeyboardInterrupt: ")
    assert all(ended(each) for each in pids)
    assert cells.run("!echo next").text == "next\n"


def test_a_command_may_end_in_its_own_way(cells: Cells) -> None:
    code = "!trap 'echo saved; exit 0' INT; echo on; while true; do sleep 0.05; done"
    ran = cells.run(code, on_text=lambda text: cells.interrupt() if text == "on\n" else None)
    assert (ran.text, ran.error) == ("on\n^Csaved\n", "KeyboardInterrupt: ")


def test_a_command_that_ignores_an_interrupt_is_killed_by_the_second(cells: Cells) -> None:
    code = "!trap 'echo no' INT; trap 'echo never' TERM; echo on; while true; do sleep 0.05; done"
    ran = cells.run(
        code, on_text=lambda text: cells.interrupt() if text.endswith(("on\n", "no\n", "never\n")) else None
    )
    assert "no\n" in ran.text
    assert "never\n" in ran.text
    assert ran.error == "KeyboardInterrupt: "


@pytest.mark.parametrize("answers", [None, []], ids=["alone", "with a person"])
def test_background_processes_continue_and_can_print(cells: Cells, tmp_path: Path, answers: list[str] | None) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    code = f"!(until [ -e {go} ]; do sleep 0.02; done; echo late && touch {done}) & echo started"
    assert cells.run(code, answers).text == "started\n"
    go.touch()
    wait = f"import os, time\nend = time.time() + 30\nwhile not os.path.exists({str(done)!r}) and time.time() < end: time.sleep(0.01)"
    assert cells.run(wait).error == ""
    assert done.exists()


@linux
def test_a_command_leaves_no_files_open(cells: Cells) -> None:
    count = "len(os.listdir('/proc/self/fd'))"
    code = f"import os\nbefore = {count}\nfor _ in range(5):\n    !true\n    x = !true\n{count} - before"
    # Background work may open or close one meanwhile; ten commands that leave one each are not a coincidence.
    assert int(cells.run(code).result) < 5


def test_a_thread_may_run_commands(cells: Cells) -> None:
    code = """
import threading
found = []
thread = threading.Thread(target=lambda: found.append(get_ipython().getoutput('read x; echo ended')))
thread.start(); thread.join(); found
"""
    assert cells.run(code, answers=[]).result == "[['ended']]"
