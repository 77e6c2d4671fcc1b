"""Kernels of root in Colab mode have their own copy of the system's folders."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.colab.cells import kernel
from tests.guest.colab.users import BEGIN, ENTER, User, make_user

OVERLAY = ENTER + "from ownlab_guest.colab import system_overlay\nassert system_overlay.is_active()\n"
NAME = "ownlab-test-overlay"


@pytest.fixture
def root() -> Iterator[User]:
    with make_user("root") as user:
        (user.home / "runtime").mkdir()
        yield user


def overlay(user: User) -> dict[str, str]:
    return {"OWNLAB_OVERLAY": str(user.home / "runtime" / "overlay")}


def test_what_root_changes_in_the_system_stays_in_the_runtime(root: User) -> None:
    program = Path("/usr/bin") / NAME
    # Containers have mounts in /etc.
    removed = next(path for path in sorted(Path("/etc").iterdir()) if path.is_file() and not path.is_mount())
    answer = root.run(
        OVERLAY
        + f"""
open({str(program)!r}, 'w').write('#!/bin/sh\\necho works\\n')
os.chmod({str(program)!r}, 0o755)
os.unlink({str(removed)!r})
os.makedirs('/var/lib/{NAME}/deep')
print(subprocess.check_output({NAME!r}, text=True).strip(), os.path.exists({str(removed)!r}))
""",
        **overlay(root),
    )
    assert answer.split() == ["works", "False"]
    assert not program.exists()
    assert removed.is_file()
    assert not Path("/var/lib", NAME).exists()
    # The runtime's next kernel has the same system; deleting the runtime's folder deletes all of it.
    again = root.run(
        OVERLAY + f"print(subprocess.check_output({NAME!r}, text=True).strip(), os.path.exists({str(removed)!r}))",
        **overlay(root),
    )
    assert again.split() == ["works", "False"]
    shutil.rmtree(root.home / "runtime" / "overlay")
    assert root.run(OVERLAY + f"import shutil; print(shutil.which({NAME!r}))", **overlay(root)).split() == ["None"]


def test_mounts_and_shared_folders_below_the_system_stay_as_they_are(root: User, tmp_path: Path) -> None:
    shared = Path("/var/tmp") / f"{NAME}-{os.getpid()}"
    shared.mkdir()
    begin = (
        BEGIN
        + """
from ownlab_guest.colab import mount_namespace
mount_namespace.separate()
mount_namespace.mount('driver', '/usr/share', 'tmpfs')  # as containers get the files of a driver
open('/usr/share/driver', 'w').write('mounted')
"""
    )
    try:
        answer = root.run(
            begin
            + OVERLAY[len(BEGIN) :]
            + f"""
print(open('/usr/share/driver').read())
open({str(shared / "kept")!r}, 'w').write('on the machine')
""",
            **overlay(root),
            OWNLAB_DRIVE=str(shared),
        )
        assert answer.split() == ["mounted"]
        assert (shared / "kept").read_text() == "on the machine"
    finally:
        shutil.rmtree(shared)


def test_without_an_overlay_the_notebook_says_what_it_changes(root: User) -> None:
    told = BEGIN + "print(content.enter() or 'entered')\nfrom ownlab_guest.colab import system_overlay\n"
    answer = root.run(told + "print(system_overlay.refusal())", OWNLAB_OVERLAY="/proc/nowhere/overlay")
    entered, notice = answer.strip().split("\n")
    assert entered == "entered"  # /content is there nevertheless
    assert notice.startswith(
        "This notebook runs as root without a private copy of the system: an overlay cannot be mounted here ("
    )
    assert (
        "What it changes in /usr, /etc, /var and /opt, for example with `apt install`, changes this machine" in notice
    )
    # An ordinary user cannot change these folders.
    with make_user("user") as user:
        assert user.run(told + "print([system_overlay.refusal()])", **overlay(user)).split() == ["entered", "['']"]


def test_a_debian_package_is_installed_for_the_runtime_only(root: User, tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("not Debian")
    package = tmp_path / "package"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "DEBIAN" / "control").write_text(
        f"Package: {NAME}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a test\n"
    )
    (package / "usr" / "games").mkdir(parents=True)
    (package / "usr" / "games" / NAME).write_text("#!/bin/sh\necho installed\n")
    (package / "usr" / "games" / NAME).chmod(0o755)
    subprocess.run(["dpkg-deb", "--build", package, tmp_path / "test.deb"], check=True, stdout=subprocess.DEVNULL)
    changes = {**overlay(root), "OWNLAB_CONTENT": str(root.content), "OWNLAB_DRIVE": str(root.drive)}
    with kernel(tmp_path, changes) as cells:
        ran = cells.run(f"!apt-get install -q {tmp_path}/test.deb 2>&1 | tail -3; /usr/games/{NAME}")
        assert ran.text.rstrip().endswith("installed"), ran
        # `apt install` does not ask, not even through sudo, which does not pass variables on.
        question = "apt-config dump APT::Get::Assume-Yes"
        assert cells.run(f"!{question}; env -u APT_CONFIG {question}").text.count('"true"') == 2
    assert not Path("/usr/games", NAME).exists()
    assert NAME not in Path("/var/lib/dpkg/status").read_text()
