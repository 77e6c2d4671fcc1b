"""Installed packages are reported, and missing ones installed, with real kernels, pip and dpkg."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.guest.colab.kernel_process import SECONDS, started
from tests.guest.wheels import make_deb, make_wheel, pip_variables

from ownlab.text import unpack_texts

LAUNCH = Path(__file__).parents[2] / "src" / "ownlab_guest" / "launch.py"
PIP = f"{sys.executable} -m pip -q"


class Told:
    """A kernel that runs cells, and its reports about packages."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.warnings: list[dict[str, Any]] = []  # of the last cell: display data

    def run(self, code: str) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = []
        self.warnings = []

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] == "ownlab_packages":
                answer.append(message["content"])
            elif message["msg_type"] == "display_data":
                self.warnings.append(message["content"]["data"])

        self._client.execute_interactive(code, output_hook=hear, timeout=SECONDS)
        return answer


@contextmanager
def kernel(folder: Path, colab: str = "0", **changes: str) -> Iterator[Told]:
    wheels = folder / "wheels"
    variables = {"OWNLAB_COLAB": colab, **pip_variables(folder / "place", wheels), **changes}
    with started(folder, variables, sys.executable) as (_, client):
        yield Told(client)


def restore(folder: Path, changes: dict[str, str], **wanted: list[str]) -> dict[str, Any]:
    variables = {**os.environ, **pip_variables(folder / "place", folder / "wheels"), **changes}
    ran = subprocess.run(
        [sys.executable, str(LAUNCH), "shell.packages", "restore", json.dumps(wanted)],
        env=variables, capture_output=True, text=True, timeout=SECONDS, check=True,
    )  # fmt: skip
    return unpack_texts(json.loads(ran.stdout))


@pytest.mark.parametrize("colab", ["0", "1"], ids=["plain", "colab"])
def test_installed_packages_are_reported_with_exact_versions(tmp_path: Path, colab: str) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "1.0", "first_thing", requires="Second.Thing")
    make_wheel(wheels, "2.1", "second_thing")
    with kernel(tmp_path, colab) as answer:
        assert answer.run("'nothing to install'") == []
        assert answer.run(f"!{PIP} install no-such-thing") == []
        both = {"first-thing": "first-thing==1.0", "second-thing": "second-thing==2.1"}
        assert answer.run("%pip -q install first-thing") == [{"pip": both, "apt": {}}]
        make_wheel(wheels, "2.2", "second_thing")
        script = f"%%bash\nset -e\n{PIP} install second-thing\nfalse"
        assert answer.run(script) == [{"pip": {"second-thing": "second-thing==2.2"}, "apt": {}}]
        gone = f"import shutil, glob  # uninstall: pip does not from a --target\n[shutil.rmtree(each) for each in glob.glob({str(tmp_path / 'place' / 'second*info')!r})];"
        assert answer.run(gone) == [{"pip": {"second-thing": None}, "apt": {}}]


@pytest.mark.parametrize("colab", ["0", "1"], ids=["plain", "colab"])
def test_packages_that_were_imported_before_they_changed_are_named(tmp_path: Path, colab: str) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "1.0", "used_thing")
    make_wheel(wheels, "1.0", "unused_thing")
    with kernel(tmp_path, colab) as answer:
        answer.run("!pip -q install used-thing unused-thing\nimport used_thing")
        assert answer.warnings == [], "a new package that the same cell imports is not an old one"
        answer.run("%pip -q install --upgrade used-thing unused-thing")
        assert answer.warnings[0]["application/vnd.colab-display-data+json"]["pip_warning"] == {"packages": ["used_thing"]}, "installed again"  # fmt: skip
        make_wheel(wheels, "2.0", "used_thing")
        make_wheel(wheels, "2.0", "unused_thing")
        answer.run("%%bash\npip -q install used-thing unused-thing")
        (shown,) = answer.warnings
        assert shown["text/plain"] == (
            "This runtime still uses the old version of: used_thing. Restart it to use the installed version."
        )
        warning = shown["application/vnd.colab-display-data+json"]
        assert warning["pip_warning"] == {"packages": ["used_thing"]}
        assert warning["id"]
        answer.run("'uninstall'; import unused_thing")
        assert answer.warnings == [], "nothing was changed"


def test_a_package_that_the_same_cell_imported_before_is_named(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "1.0", "used_thing")
    with kernel(tmp_path) as answer:
        answer.run("%pip -q install used-thing")
        make_wheel(wheels, "2.0", "used_thing")
        answer.run("import used_thing; used_thing.__version__ = used_thing.VERSION\n%pip -q install used-thing")
        assert [each["application/vnd.colab-display-data+json"]["pip_warning"] for each in answer.warnings] == [
            {"packages": ["used_thing"]}
        ]


def test_origins_are_reported_without_passwords(tmp_path: Path) -> None:
    here = (tmp_path / "a file.whl").as_uri()
    (tmp_path / "a file.whl").touch()
    origins = {
        "from_git": {
            "url": "https://me:secret@example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "0a1"}, "subdirectory": "b",
        },
        "by_ssh": {"url": "ssh://git@example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "0a1"}},
        "by_name": {"url": "ssh://me:p@ss@example.org/a@b.git", "vcs_info": {"vcs": "hg", "commit_id": "0a1"}},
        "by_key": {"url": "https://example.org/a.whl?key=secret", "archive_info": {}},
        "from_file": {"url": here, "archive_info": {}},
        "of_conda": {"url": "file:///home/conda/feedstock_root/work", "dir_info": {}},
        "worked_on": {"url": "file:///data/work", "dir_info": {"editable": True}},
        "damaged": {"url": 7},
    }  # fmt: skip
    code = f"""
import json, pathlib  # install
for name, origin in {origins!r}.items():
    folder = pathlib.Path({str(tmp_path / "place")!r}, name + "-1.0.dist-info")
    folder.mkdir()
    (folder / "direct_url.json").write_text(json.dumps(origin))
"""
    with kernel(tmp_path) as answer:
        (found,) = answer.run(code)
    assert found["pip"] == {
        "by-key": "by-key==1.0",
        "by-name": "by-name @ hg+ssh://example.org/a@b.git@0a1",
        "by-ssh": "by-ssh @ git+ssh://git@example.org/a.git@0a1",
        "damaged": "damaged==1.0",
        "from-file": f"from-file @ {here}",
        "from-git": "from-git @ git+https://example.org/a.git@0a1#subdirectory=b",
        "of-conda": "of-conda==1.0",
    }


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no Debian")
def test_packages_of_debian(tmp_path: Path) -> None:
    """With dpkg's own records elsewhere: the machine's are left alone."""
    admin = tmp_path / "dpkg"
    for folder in ("info", "updates", "triggers"):
        (admin / folder).mkdir(parents=True)
    (admin / "status").write_text("")
    deb = make_deb(tmp_path, "ownlab-test-package")
    dpkg = f"dpkg --admindir={admin} --instdir={tmp_path} --force-not-root --force-bad-path --log=/dev/null"
    with kernel(tmp_path, DPKG_ADMINDIR=str(admin)) as answer:
        name = "ownlab-test-package"
        assert answer.run(f"!{dpkg} --install {deb}") == [{"pip": {}, "apt": {name: name}}]
        assert answer.run(f"!{dpkg} --install {deb}") == []
        assert answer.run(f"!{dpkg} --remove {name}") == [{"pip": {}, "apt": {name: None}}]
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "apt-get").write_text(f'#!/bin/sh\necho "$@"\n[ "$1" = update ] || {dpkg} --install {deb}\n')
    (programs / "apt-cache").write_text(f"#!/bin/sh\necho {name}\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    changes = {"DPKG_ADMINDIR": str(admin), "PATH": f"{programs}:{os.environ['PATH']}"}
    if os.geteuid() == 0:
        patterns = ["ownlab.test.package", "z+"]
        done = restore(tmp_path, changes, apt=[name, *patterns, "--option", "A", f"{name}-", f"{name}:all-"])
        unknown = f"apt does not know these packages: {', '.join(patterns)}"
        assert done == {"installed": [name], "failed": unknown}
        assert done["failed"].values == {"packages": ", ".join(patterns)}
        assert restore(tmp_path, changes, apt=[name]) == {"installed": [], "failed": ""}


def test_only_what_is_missing_is_installed(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    for version in ("1.0", "2.0"):
        make_wheel(wheels, version, "first_thing", requires="second-thing<2")
        make_wheel(wheels, version, "second_thing")
    wanted = ["first-thing==1.0", "second-thing==1.0", "pip", "--index-url=http://example.org", "-r x", "a; rm b"]
    done = restore(tmp_path, {}, pip=wanted)
    assert done == {"installed": ["first-thing==1.0", "second-thing==1.0"], "failed": ""}
    assert restore(tmp_path, {}, pip=wanted) == {"installed": [], "failed": ""}
    (tmp_path / "place" / "first_thing-1.0.dist-info").rename(tmp_path / "place" / "first_thing-1.0+cu118.dist-info")
    spelt = ["First_Thing==1", "first.thing==1.0.0", "first-thing==v1.0+CU118", "second-thing==1.00"]
    assert restore(tmp_path, {}, pip=spelt) == {"installed": [], "failed": ""}
    # They contradict each other, and were installed all the same.
    done = restore(tmp_path, {}, pip=["first-thing==2.0", "second-thing==2.0"])
    assert done == {"installed": ["first-thing==2.0", "second-thing==2.0"], "failed": ""}


def test_installation_errors_are_explained(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "1.0", "first_thing")
    wanted = ["first-thing==1.0", "other @ file:///not/here.whl", "third==3"]
    done = restore(tmp_path, {}, pip=wanted[:2])
    assert done == {
        "installed": ["first-thing==1.0"],
        "failed": "other was installed from a file that does not exist here: file:///not/here.whl",
    }
    done = restore(tmp_path, {}, pip=wanted[2:])
    assert done == {"installed": [], "failed": "No matching distribution found for third==3"}
    make_wheel(tmp_path / "wheels", "1.0", "second_thing")
    done = restore(tmp_path, {}, pip=["second-thing==1.0", *wanted[2:]])
    failed = "third==3: No matching distribution found for third==3"
    assert done == {"installed": ["second-thing==1.0"], "failed": failed}


def test_equivalent_addresses_are_recognised(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "a b", "1.0", "first_thing").as_uri()
    assert "%20" in wheel
    wanted = f"First_Thing @ {wheel}#egg=first"
    assert restore(tmp_path, {}, pip=[wanted]) == {"installed": [wanted], "failed": ""}
    folder = tmp_path / "place" / "from_git-1.0.dist-info"
    folder.mkdir()
    commits = {"vcs": "git", "commit_id": "0a1", "requested_revision": "main"}
    (folder / "direct_url.json").write_text(json.dumps({"url": "https://example.org/a.git", "vcs_info": commits}))
    for behind in ("", "@main", "@0a1"):
        wanted = f"from-git @ git+https://me@example.org/a.git{behind}"
        assert restore(tmp_path, {}, pip=[wanted]) == {"installed": [], "failed": ""}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become somebody else")
def test_without_root_the_command_to_run_is_shown() -> None:
    code = f"import os, sys\nsys.path.insert(0, {str(LAUNCH.parents[1])!r})\n"
    code += (
        "from ownlab_guest.shell.packages import restore\nos.seteuid(65534)\nprint(restore(apt=['ffmpeg'])['failed'])"
    )
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are for root alone
        os.chmod(folder, 0o755)
        apt = Path(folder, "apt-get")
        apt.write_text("#!/bin/sh\n")
        apt.chmod(0o755)
        environ = {**os.environ, "DPKG_ADMINDIR": folder, "PATH": folder}
        ran = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout == "Only root can install ffmpeg. Run in a terminal: sudo apt-get install ffmpeg\n"
