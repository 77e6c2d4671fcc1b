"""The kernel's launcher and its ends, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

GUEST = Path(__file__).parents[2] / "src" / "ownlab_guest"
LAUNCH = GUEST / "kernel" / "launch.py"


def run(code: str, python: str = sys.executable) -> str:
    """Return what a script prints after the launcher's preparation."""
    prepared = f"import sys\nsys.path.insert(0, {str(LAUNCH.parent)!r})\nimport launch\nlaunch.prepare_path()\n{code}"
    ran = subprocess.run([python, "-c", prepared], capture_output=True, text=True, timeout=300, check=True)
    return ran.stdout


def test_functions_run_once_in_reverse_order_even_if_one_fails() -> None:
    code = """
from ownlab_guest.kernel.on_end import on_end, run_on_end
on_end(print, 'first', end='.')
@on_end
def second(): raise KeyboardInterrupt
on_end(print, 'third', end='.')
run_on_end()
on_end(print, 'at exit', end='.')
"""
    assert run(code) == "third.first.at exit."


def test_a_forked_worker_runs_none_of_them() -> None:
    code = """
import os
from ownlab_guest.kernel.on_end import on_end
on_end(print, 'ended', flush=True)
if os.fork() == 0:
    sys.exit(0)
os.wait()
"""
    assert run(code) == "ended\n"


def test_on_end_accepts_only_functions() -> None:
    code = "from ownlab_guest.kernel.on_end import on_end\ntry: on_end(3)\nexcept TypeError as exc: print(exc)"
    assert run(code) == "on_end takes a function, not 3\n"


def test_an_installed_ownlab_comes_before_the_facade() -> None:
    code = """
import ownlab.notebook, ownlab_guest.kernel.on_end
print(ownlab.__version__ != '', ownlab.notebook.on_end is ownlab_guest.kernel.on_end.on_end, sys.path[-1])
"""
    assert run(code) == f"True True {GUEST / 'facade'}\n"


def test_notebooks_have_on_end_where_ownlab_is_not_installed(torch_python: str) -> None:
    code = "import ownlab\nownlab.on_end(print, 'saved')\nprint(ownlab.__file__)"
    assert run(code, torch_python) == f"{GUEST / 'facade' / 'ownlab' / '__init__.py'}\nsaved\n"


def test_an_environment_without_ipykernel_is_reported(torch_python: str) -> None:
    ran = subprocess.run(
        [torch_python, str(LAUNCH), "-f", "x"], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.stderr == f"{torch_python} has no ipykernel: {torch_python} -m pip install ipykernel\n"
    assert ran.returncode == 78


def test_a_kernel_whose_supervisor_is_gone_does_not_start() -> None:
    environment = {**os.environ, "JPY_PARENT_PID": "1"}
    ran = subprocess.run([sys.executable, str(LAUNCH), "-f", "x"], env=environment, timeout=300, check=False)
    assert ran.returncode == 1


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_signals_end_a_forked_worker_as_usual(ending: signal.Signals) -> None:
    code = f"""
import os, time
from ownlab_guest.kernel.on_end import on_end
launch.watch_end()
on_end(print, 'ended', flush=True)
worker = os.fork()
if worker == 0:
    time.sleep(600)
os.kill(worker, {int(ending)})
print(-os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]), flush=True)
"""
    assert run(code) == f"{int(ending)}\nended\n"


def test_a_worker_does_not_hold_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "runtime.lock"
    code = f"""
import os
lock = os.open({str(path)!r}, os.O_CREAT | os.O_RDWR)
os.set_inheritable(lock, True)
os.environ['OWNLAB_LOCK'] = str(lock)
launch.keep_lock()
def held():
    return any(os.path.realpath('/proc/self/fd/' + each) == {str(path)!r} for each in os.listdir('/proc/self/fd'))
print('OWNLAB_LOCK' in os.environ, held(), os.get_inheritable(lock), flush=True)
if os.fork() == 0:
    print(held(), flush=True)
    os._exit(0)
os.wait()
"""
    assert run(code) == "False True False\nFalse\n"


def test_sigterm_ends_a_process_in_the_middle_of_a_cell() -> None:
    """SystemExit would be caught by IPython; other exit handlers run, too. The process then dies of the signal."""
    code = """
import atexit, os, time
from ownlab_guest.kernel.on_end import on_end
launch.watch_end()
atexit.register(print, 'other', flush=True)
on_end(print, 'ended', flush=True)
print('on', flush=True)
while True:
    try:
        while True: time.sleep(0.01)
    except BaseException: print('caught')
"""
    prepared = f"import sys\nsys.path.insert(0, {str(LAUNCH.parent)!r})\nimport launch\nlaunch.prepare_path()\n{code}"
    with subprocess.Popen([sys.executable, "-c", prepared], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.terminate()
        end = time.monotonic() + 180
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        process.kill()
        assert (process.returncode, process.stdout.read()) == (-signal.SIGTERM, "ended\nother\n")


def test_what_a_worker_forks_keeps_the_files_of_the_worker(tmp_path: Path) -> None:
    code = f"""
import os
os.environ['OWNLAB_LOCK'] = str(os.open({str(tmp_path / "runtime.lock")!r}, os.O_CREAT | os.O_RDWR))
launch.keep_lock()
if os.fork() == 0:
    file = os.open({str(tmp_path / "file")!r}, os.O_CREAT | os.O_RDWR)  # has the number that the lock had
    if os.fork() == 0:
        print(os.write(file, b'kept'), flush=True)
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
"""
    assert run(code) == "4\n"


def test_a_closed_subshell_handles_its_last_messages() -> None:
    code = """
import asyncio, zmq
from ipykernel.subshell import SubshellThread
launch.finish_subshells()
thread = SubshellThread('a', zmq.Context.instance())
async def handle(): print('handled')
def come_and_close(): asyncio.ensure_future(handle()); thread.io_loop.stop()
thread.io_loop.add_callback(come_and_close)
thread.start()
thread.join()
"""
    assert run(code) == "handled\n"
