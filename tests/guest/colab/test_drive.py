"""google.colab.drive: Colab's words and errors over the user's own folder, or over a remote of rclone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.colab.users import BEGIN, ENTER, User, has, lines_of, make_user

TRY = """
def tried(*arguments, **options):
    try: drive.mount(*arguments, **options)
    except ValueError as exc: print('ValueError', exc)
"""
DRIVE = ENTER + "from google.colab import drive\n" + TRY
ALREADY = (
    "Drive already mounted at /content/drive; to attempt to forcibly remount, "
    'call drive.mount("/content/drive", force_remount=True).'
)


@pytest.fixture(params=["root", "user"])
def person(request: pytest.FixtureRequest) -> Iterator[User]:
    with make_user(request.param) as each:
        yield each


def test_the_persons_folder_is_my_drive(person: User) -> None:
    answer = person.run(
        DRIVE
        + """
drive.mount('/content/drive')
open('/content/drive/MyDrive/kept.txt', 'w').write('kept')
print(open('/content/drive/My Drive/kept.txt').read(), sorted(os.listdir('/content/drive')))
print(os.path.ismount('/content/drive'), subprocess.check_output(['find', '/content/drive/MyDrive', '-type', 'f'], text=True))
drive.mount('/content/drive')
try: open('/content/drive/beside', 'w')
except OSError as exc: print(exc.strerror)
drive.flush_and_unmount()
print(os.listdir('/content/drive'))
drive.flush_and_unmount()
"""
    )
    assert answer.split("\n") == [
        "Mounted at /content/drive",
        "kept ['.Trash-0', '.file-revisions-by-id', '.shortcut-targets-by-id', 'My Drive', 'MyDrive', 'Shareddrives']",
        "True /content/drive/MyDrive/kept.txt",
        "",
        ALREADY,
        "Read-only file system",
        "[]",
        "Drive not mounted, so nothing to flush and unmount.",
        "",
    ]
    kept = person.drive / "kept.txt"
    assert (kept.read_text(), kept.stat().st_uid) == ("kept", person.uid)
    assert list((person.content / "drive").iterdir()) == []


def test_any_mountpoint_also_in_the_root(person: User) -> None:
    answer = person.run(
        DRIVE
        + """
drive.mount('/gdrive'); drive.mount('gdrive'); drive.mount('~/mine'); os.mkdir('empty'); drive.mount('/content/../content/empty/')
open('/gdrive/MyDrive/a', 'w').close()
print(all(os.path.exists(p + '/MyDrive/a') for p in ('/content/gdrive', os.environ['HOME'] + '/mine', '/content/empty')))
drive.flush_and_unmount(); print(os.listdir('/gdrive'), os.listdir('/content/empty'))
"""
    )
    home = person.home
    mounted = "".join(
        f"Mounted at {at}\n" for at in ("/gdrive", "gdrive", f"{home}/mine", "/content/../content/empty/")
    )
    assert answer == mounted + "True\n[] []\n"


def test_colabs_errors(person: User) -> None:
    answer = person.run(
        DRIVE
        + """
os.mkdir('full'); open('full/a', 'w').close(); os.symlink('full', 'link'); open('file', 'w').close()
for at in ('/content/my drive', 'full', 'link', 'file', 'no/such', '/content/full/../full/a/b'): tried(at)
print(os.listdir('full'))
"""
    )
    assert answer.split("\n") == [
        "ValueError Mountpoint must not contain a space",
        "ValueError Mountpoint must not already contain files",
        "ValueError Mountpoint must not be a symlink",
        "ValueError Mountpoint must either be a directory or not exist",
        "ValueError Mountpoint must be in a directory that exists",
        "ValueError Mountpoint must be in a directory that exists",
        "['a']",
        "",
    ]


def test_read_only_and_remounted(person: User) -> None:
    person.drive.mkdir()
    os.chown(person.drive, person.uid, -1)
    (person.drive / "there.txt").write_text("there")
    answer = person.run(
        DRIVE
        + """
drive.mount('drive', readonly=True)
os.chdir('drive/MyDrive'); print(open('there.txt').read())
for path in ('new', 'there.txt'):
    try: open(path, 'w')
    except OSError as exc: print(exc.strerror)
drive.mount('/content/drive', force_remount=True)
print(os.getcwd()); open('drive/MyDrive/new', 'w').close()
"""
    )
    read_only = "Read-only file system\n"
    assert answer == f"Mounted at drive\nthere\n{read_only}{read_only}Mounted at /content/drive\n/content\n"
    assert (person.drive / "new").exists()


def test_a_restarted_kernel_still_has_the_drive(person: User) -> None:
    person.run(DRIVE + "drive.mount('/content/drive', readonly=True); open('/content/x', 'w').close()")
    look = ENTER + "print(os.path.ismount('/content/drive'), os.access('/content/drive/MyDrive', os.W_OK))\n"
    assert person.run(look) == "True False\n"
    assert person.run(look + "from google.colab import drive; drive.flush_and_unmount()") == "True False\n"
    assert person.run(look) == "False False\n"


def test_a_script_that_a_cell_starts(person: User) -> None:
    script = "import sys; sys.path.append(sys.argv[1]); from google.colab import drive; drive.mount('/content/drive')"
    answer = person.run(
        DRIVE
        + f"script = [sys.executable, '-c', {script!r}, sys.path[-1]]\n"
        + """
drive.mount('/content/drive'); sys.stdout.flush()
subprocess.run(script, check=True)
drive.flush_and_unmount()
print(subprocess.run(script, text=True, stdout=-1, stderr=-2).stdout.strip().split('\\n')[-1])
"""
    )
    first, second, third, _ = answer.split("\n")
    assert (first, second[:37]) == ("Mounted at /content/drive", "Drive already mounted at /content/dri")
    if person.name == "root":
        assert third == "Mounted at /content/drive"
    else:
        assert third.endswith("(only the kernel's own process can mount: call drive.mount in a cell)")


def test_a_missing_drive_folder_is_an_error(person: User) -> None:
    answer = person.run(DRIVE + "tried('drive')", OWNLAB_DRIVE="")
    assert answer == "ValueError mount failed: this kernel has no drive folder (OWNLAB_DRIVE is not set)\n"


@pytest.fixture
def linked() -> Iterator[User]:
    """Somebody on a machine whose own /content contains the drive: there the runtime gets none, and links have to do."""
    with make_user("root", "folder") as each:
        each.drive = Path("/content/mine")
        yield each


def test_links_where_nothing_can_be_mounted(linked: User) -> None:
    answer = linked.run(
        BEGIN
        + "content.enter(); from google.colab import drive\n"
        + TRY
        + """
drive.mount('/content/drive')
open('drive/MyDrive/kept', 'w').close()
print(sorted(os.listdir('/content/mine')), os.path.exists('drive/My Drive/kept'))
drive.mount('/content/drive')
drive.mount('/content/drive', force_remount=True, readonly=True)
tried('/srv/drive'); tried('/content/../srv/drive'); os.symlink('/srv', 'out'); tried('out/drive'); tried('/content/out/drive')
drive.flush_and_unmount(); print(os.listdir('drive'), sorted(os.listdir('/content/mine')))
"""
    )
    lines = answer.split("\n")
    place = linked.content / "drive"
    assert lines[0] == f"Mounted at {place}"
    assert lines[1].startswith("/content is not available (this machine's own /content contains /content/mine")
    assert lines[1].endswith(f"Use paths that begin with {place}.")
    assert lines[2] == "['Colab Notebooks', 'kept'] True"
    assert lines[3].startswith("Drive already mounted at /content/drive;")
    assert lines[5].endswith("The drive is writable: read-only mounts are not available either.")
    assert [line.split(":")[0] for line in lines[6:10]] == [
        f"ValueError Mountpoint must be inside {linked.content}"
    ] * 4
    assert lines[10] == "[] ['Colab Notebooks', 'kept']"


def test_links_of_an_earlier_kernel(linked: User) -> None:
    code = BEGIN + "content.enter(); from google.colab import drive; drive.mount('/content/drive')\n"
    first, other = "print(os.path.realpath('drive/MyDrive'))", "/content/other"
    assert linked.run(code + first).endswith("\n/content/mine\n")
    assert linked.run(code + first, OWNLAB_DRIVE=other).endswith(f"\n{other}\n")


def test_missing_rclone_is_an_error(person: User) -> None:
    for remote, why in (
        ("--help", "must have the form name:path, not '--help'"),
        ("/etc", "must have the form name:path, not '/etc'"),
    ):
        assert why in person.run(DRIVE + "tried('drive'); print(os.listdir('/content'))", OWNLAB_DRIVE_REMOTE=remote)
    answer = person.run(DRIVE + "os.environ['PATH'] = ''; tried('drive')", OWNLAB_DRIVE_REMOTE="mine:")
    assert "mine: needs rclone, which is not installed" in answer


needs_rclone = pytest.mark.skipif(not has("rclone") or not has("fusermount3"), reason="no rclone, or no fuse3")


@pytest.fixture(params=["root", "user"])
def remote(request: pytest.FixtureRequest) -> Iterator[tuple[User, Path, dict[str, str]]]:
    """Somebody whose drive is a remote of rclone: another folder of this machine, as rclone sees one."""
    with make_user(request.param) as each:
        there = each.home / "there"
        there.mkdir()
        os.chown(there, each.uid, -1)
        yield (
            each,
            there,
            {
                "OWNLAB_DRIVE_REMOTE": f"mine:{there}",
                "RCLONE_CONFIG_MINE_TYPE": "local",
                "RCLONE_CONFIG": str(each.home / "rclone.conf"),
                "RCLONE_CACHE_DIR": str(each.home / "cache"),
            },
        )


@needs_rclone
def test_a_remote_and_what_is_written_to_it(remote: tuple[User, Path, dict[str, str]]) -> None:
    person, there, environment = remote
    (there / "old.txt").write_text("old")
    answer = person.run(
        DRIVE
        + """
drive.mount('/content/drive')
print(open('/content/drive/MyDrive/old.txt').read())
open('/content/drive/My Drive/new.txt', 'w').write('new' * 1000)
drive.flush_and_unmount()
print(os.listdir('/content/drive'))
drive.mount('/content/drive', readonly=True)
try: open('/content/drive/MyDrive/old.txt', 'w')
except OSError as exc: print('refused')
""",
        **environment,
    )
    assert answer == "Mounted at /content/drive\nold\n[]\nMounted at /content/drive\nrefused\n"
    assert (there / "new.txt").read_text() == "new" * 1000


@needs_rclone
def test_a_missing_remote(remote: tuple[User, Path, dict[str, str]]) -> None:
    person, _, environment = remote
    environment["OWNLAB_DRIVE_REMOTE"] = "other:"
    answer = person.run(DRIVE + "tried('drive'); print(os.listdir('drive'))", **environment)
    assert answer.startswith("ValueError mount failed: ")
    assert "didn't find section in config file" in answer
    assert answer.endswith("[]\n")


@needs_rclone
def test_rclone_ends_with_the_kernel(remote: tuple[User, Path, dict[str, str]]) -> None:
    person, _, environment = remote
    code = DRIVE + "drive.mount('drive'); print(os.getpid(), flush=True); sys.stdin.read()"
    with person.start(code, **environment) as kernel:
        lines_of(kernel)
        found = subprocess.run(["pgrep", "-x", "-P", lines_of(kernel)[0], "rclone"], capture_output=True, check=True)
        pid = int(found.stdout)
        kernel.kill()
    subprocess.run(["tail", f"--pid={pid}", "-f", "/dev/null"], timeout=300, check=True)
