"""/content in real processes: visible inside, and invisible outside."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.colab.users import BEGIN, ENTER, ORDINARY, User, lines_of, make_user, python_of

EVERYWHERE = [
    ("root", "none"),
    ("root", "folder"),
    ("root", "link"),
    ("user", "none"),
    ("user", "folder"),
    ("user", "link"),
]


@pytest.fixture(params=EVERYWHERE, ids="-".join)
def person(request: pytest.FixtureRequest) -> Iterator[User]:
    with make_user(*request.param) as each:
        yield each


@pytest.fixture(params=["root", "user"])
def any_user(request: pytest.FixtureRequest) -> Iterator[User]:
    with make_user(request.param) as each:
        yield each


@pytest.fixture
def user() -> Iterator[User]:
    with make_user("user") as each:
        yield each


def test_the_runtimes_folder_is_content(person: User) -> None:
    answer = person.run(
        ENTER
        + """
open('/content/made.txt', 'w').write('in /content')
print(os.getcwd(), os.environ['PWD'], sorted(os.listdir('/content')), os.path.ismount('/content'))
print(subprocess.check_output('pwd; cat made.txt', shell=True, text=True))
"""
    )
    assert answer.split("\n")[:3] == ["/content /content ['made.txt', 'sample_data'] True", "/content", "in /content"]
    made = person.content / "made.txt"
    assert made.read_text() == "in /content"
    assert made.stat().st_uid == person.uid
    # Other tests may mount something meanwhile, elsewhere.
    assert str(person.home) not in Path("/proc/self/mountinfo").read_text()


LOOK = """
names = sorted(name for name in os.listdir('/') if name != 'content')
for path in ['/' + name for name in names]:
    there = os.lstat(path)
    # A link of a new root is another one, to the same.
    print(path, os.readlink(path) if os.path.islink(path) else (there.st_dev, there.st_ino, there.st_mode))
print(os.geteuid(), os.getegid(), os.environ['HOME'], [os.readlink('/proc/self/ns/' + kind) for kind in ('pid', 'net', 'ipc')])
print(sorted(os.listdir('/dev')), len(os.listdir('/sys')), os.path.exists('/proc/1/stat'))
print([os.path.ismount(path) for path in ('/proc', '/sys', '/dev', '/dev/shm')])
open('/dev/null', 'w').write('x')
import multiprocessing.shared_memory, tempfile
memory = multiprocessing.shared_memory.SharedMemory(create=True, size=10); memory.close(); memory.unlink()
tempfile.TemporaryFile().write(b'x')
print(os.ttyname(os.openpty()[1])[:9])
"""


def test_the_rest_of_the_file_system_is_unchanged(person: User) -> None:
    assert person.run(ENTER + LOOK) == person.run(BEGIN + LOOK)


def test_sample_data_is_added_only_to_a_new_folder(any_user: User) -> None:
    any_user.run(ENTER)
    samples = any_user.content / "sample_data"
    points = json.loads((samples / "anscombe.json").read_text())
    for series in ("I", "II", "III", "IV"):
        mine = [point for point in points if point["Series"] == series]
        assert len(mine) == 11
        assert statistics.mean(point["X"] for point in mine) == 9
        assert round(statistics.mean(point["Y"] for point in mine), 2) == 7.50
    (samples / "anscombe.json").unlink()
    any_user.run(ENTER)
    assert [each.name for each in samples.iterdir()] == ["README.md"]


def test_two_runtimes_do_not_see_each_other(any_user: User) -> None:
    code = (
        ENTER
        + "open('mine-%s' % sys.argv[-1], 'w'); print('in', flush=True); sys.stdin.read(); print(*sorted(os.listdir('/content')))"
    )
    with any_user.start(code.replace("sys.argv[-1]", "1")) as first:
        assert lines_of(first) == ["in"]
        other = any_user.run(code.replace("sys.argv[-1]", "2"), OWNLAB_CONTENT=str(any_user.home / "other"))
        assert other == "in\nmine-2 sample_data\n"
        assert first.communicate("")[0] == "mine-1 sample_data\n"


OUTSIDE = (
    BEGIN
    + """
import ctypes
def mounts(): return open('/proc/self/mountinfo').read()
inside, outside = os.pipe(), os.pipe()
late = os.path.join(os.environ['HOME'], 'late')
os.mkdir(late)
before, child = mounts(), os.fork()
if child == 0:
    if 'BECOMES' in os.environ:
        os.setgroups([]); os.setgid(int(os.environ['BECOMES'])); os.setuid(int(os.environ['BECOMES']))
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as after an exec
    error = content.enter()
    assert error == '', error
    os.mkdir('/content/below')
    from ownlab_guest.colab import mount_namespace as namespace
    namespace.privileged(lambda: namespace.mount('mine', '/content/below', 'tmpfs'))
    os.write(inside[1], b'1'); os.read(outside[0], 1)
    os._exit(0 if os.path.exists(late + '/file') else 7)
os.close(inside[1])
assert os.read(inside[0], 1)
print(mounts() == before)
"""
)


def test_no_mount_is_visible_outside(person: User) -> None:
    assert person.run(OUTSIDE + "os.write(outside[1], b'1'); os.wait()") == "True\n"


@pytest.mark.parametrize("uid", [0, ORDINARY])
@pytest.mark.parametrize("content", ["none", "folder"])
def test_later_mounts_outside_become_visible(content: str, uid: int) -> None:
    late = """
from ownlab_guest.colab import mount_namespace as namespace
namespace.mount('late', late, 'tmpfs'); open(late + '/file', 'w').close()
os.write(outside[1], b'1'); print(os.WEXITSTATUS(os.wait()[1]))
"""
    with make_user("root", content) as root:
        os.chown(root.home, uid, uid)
        root.python = python_of(uid)
        assert root.run(OUTSIDE + late, BECOMES=str(uid)) == "True\n0\n"


LIFE = (
    BEGIN
    + """
import ctypes
prctl = ctypes.CDLL(None).prctl
hear, tell = os.pipe()
child = os.fork()
if child == 0:
    os.setsid()
    prctl(1, signal.SIGKILL, 0, 0, 0)
    error = content.enter()
    assert error == '', error
    os.environ['OWNLAB_MARK'] = 'x'
    interrupted = lambda *_: os.write(tell, b'i')
    signal.signal(signal.SIGINT, interrupted)
    os.write(tell, b'r')
    while True: time.sleep(60)
assert os.read(hear, 1) == b'r'
"""
)


def test_its_parent_sees_and_signals_it(any_user: User) -> None:
    answer = any_user.run(
        LIFE
        + """
print(b'OWNLAB_CONTENT=' in open('/proc/%d/environ' % child, 'rb').read(), len(os.listdir('/proc/%d/fd' % child)) > 2)
print(os.readlink('/proc/%d/cwd' % child))
os.killpg(child, signal.SIGINT)
print(os.read(hear, 1))
os.kill(child, signal.SIGTERM)
print(os.WTERMSIG(os.wait()[1]) == signal.SIGTERM)
"""
    )
    assert answer.split("\n") == ["True True", "/content", "b'i'", "True", ""]


def test_it_ends_with_its_parent(any_user: User) -> None:
    with any_user.start(LIFE + "print(child, flush=True); sys.stdin.read()") as parent:
        child = int(lines_of(parent)[0])
        stat = Path(f"/proc/{child}/stat")
        assert stat.exists()
        parent.kill()
    deadline = time.monotonic() + 180
    while stat.exists() and stat.read_text().split(") ")[1][0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_ordinary_user_gains_no_file_permissions(user: User) -> None:
    """A user namespace comes with all capabilities; they are given up again."""
    answer = user.run(
        ENTER
        + """
from pathlib import Path
Path('locked').write_text('x'); os.chmod('locked', 0o444)
try: open('locked', 'w')
except PermissionError as exc: print('refused')
caps = [line for line in open('/proc/self/status') if line.startswith(('CapPrm', 'CapEff', 'CapInh', 'CapAmb'))]
print({line.split()[1] for line in caps} == {'0' * 16})
print('CapEff:\\t' + '0' * 16 in subprocess.check_output(['cat', '/proc/self/status'], text=True))
print(subprocess.run(['cat', '/proc/%d/environ' % os.getpid()], stdout=-3).returncode)
try: os.mkdir('/somewhere')
except OSError as exc: print('refused')
print(os.statvfs('/').f_bavail > 2 ** 20 // 4096)
"""
    )
    assert answer.split("\n") == ["refused", "True", "True", "0", "refused", "True", ""]


def test_locks_and_sockets_of_before_are_kept(any_user: User) -> None:
    answer = any_user.run(
        BEGIN
        + """
import fcntl, socket
lock = os.open(os.environ['HOME'] + '/lock', os.O_CREAT | os.O_RDWR); fcntl.flock(lock, fcntl.LOCK_EX)
server = socket.socket(socket.AF_UNIX); server.bind(os.environ['HOME'] + '/socket'); server.listen()
assert content.enter() == ''
again = os.open(os.environ['HOME'] + '/lock', os.O_RDWR)
try: fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError: print('held')
socket.socket(socket.AF_UNIX).connect(os.environ['HOME'] + '/socket')
late = socket.socket(socket.AF_UNIX); late.bind(os.environ['HOME'] + '/late'); late.listen()
if os.fork() == 0: os._exit(0)
os.wait()
"""
    )
    assert answer == "held\n"
    assert (any_user.home / "late").is_socket()


def test_files_that_the_kernel_needs_are_not_hidden() -> None:
    with make_user("root", "folder") as root:
        code = BEGIN + "os.environ['OWNLAB_DRIVE'] = '/content/mine'; print(content.enter()); print(os.getcwd())"
        why, cwd, _ = root.run(code).split("\n")
        assert "this machine's own /content contains /content/mine" in why
        assert cwd == str(root.content)


FORBID = """
import ctypes
class Step(ctypes.Structure): _fields_ = [('code', ctypes.c_ushort), ('jt', ctypes.c_ubyte), ('jf', ctypes.c_ubyte), ('k', ctypes.c_uint)]
class Program(ctypes.Structure): _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.POINTER(Step))]
def forbid(number):  # as Docker does: a call fails with EPERM
    steps = (Step * 4)(Step(0x20, 0, 0, 0), Step(0x15, 0, 1, number), Step(0x06, 0, 0, 0x50001), Step(0x06, 0, 0, 0x7fff0000))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(38, 1, 0, 0, 0) == 0
    assert prctl(22, 2, ctypes.byref(Program(4, steps)), 0, 0) == 0
numbers = {'x86_64': {'mount': 165, 'unshare': 272, 'pivot_root': 155}, 'aarch64': {'mount': 40, 'unshare': 97, 'pivot_root': 41}}[os.uname().machine]
"""


@pytest.mark.parametrize("call", ["unshare", "mount", "pivot_root"])
def test_forbidden_mounts_are_explained_and_change_nothing(any_user: User, call: str) -> None:
    if call == "pivot_root" and any_user.name == "root":
        pytest.skip("root needs no new root")
    answer = any_user.run(
        BEGIN
        + FORBID
        + f"forbid(numbers[{call!r}])\n"
        + """
before = os.readlink('/proc/self/ns/mnt'), os.readlink('/proc/self/ns/user'), os.geteuid()
print(content.enter())
print(before == (os.readlink('/proc/self/ns/mnt'), os.readlink('/proc/self/ns/user'), os.geteuid()), os.getcwd())
"""
    )
    why, rest, _ = answer.split("\n")
    assert why.startswith("/content is not available: ")
    assert f"{call}: Operation not permitted" in why
    assert why.endswith(f"The notebook works in {any_user.content} instead.")
    assert rest == f"True {any_user.content}"
    assert (any_user.content / "sample_data").is_dir()


def test_a_setting_that_forbids_it_is_named() -> None:
    """The setting is that of a user namespace: the machine's own is not changed."""
    with make_user("root") as root:
        code = BEGIN + "print(content.enter())"
        forbids = 'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set -sys_admin "$@"'
        ran = subprocess.run(
            root.command("unshare", "-Ur", "sh", "-c", forbids, "sh", root.python, "-c", code),
            env=root.environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if ran.returncode:
            pytest.skip(f"no user namespaces here: {ran.stderr}")
        assert "`sysctl user.max_user_namespaces=15000` allows it" in ran.stdout


def test_root_without_the_right_to_mount_stays_root() -> None:
    """As in many containers: then it needs a user namespace, with everybody in it."""
    with make_user("root") as root:
        code = ENTER + (
            "open('a', 'w').close(); os.chown('a', 1234, 1234); print(os.geteuid(), os.stat('a').st_uid, os.stat('/etc').st_uid)"
        )
        answer = subprocess.run(
            root.command("setpriv", "--bounding-set", "-sys_admin", root.python, "-c", code),
            env=root.environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout
        assert answer == "0 1234 0\n"
        assert (root.content / "a").stat().st_uid == 1234


def test_without_a_content_folder_nothing_happens(user: User) -> None:
    answer = user.run(BEGIN + "print(content.enter()); print(os.getcwd())", OWNLAB_CONTENT="")
    assert answer == f"this process does not run in Colab mode\n{user.home}\n"
