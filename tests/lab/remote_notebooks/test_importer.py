"""Importing notebooks from a real server and from real folders with traps in them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web_server import Web, serve_web

from ownlab.download import download
from ownlab.errors import InputError
from ownlab.lab.remote_notebooks.addresses import resolve
from ownlab.lab.remote_notebooks.importer import (
    filename_of,
    import_notebook,
    read_notebook,
    safe_name,
    save_new,
)
from ownlab.lab.secrets.store import grant, list_secrets, set_secret

NOTEBOOK = json.dumps({"cells": [], "metadata": {"colab": {}}, "nbformat": 4, "nbformat_minor": 5}).encode()


@pytest.fixture
def web() -> Iterator[Web]:
    with serve_web() as server:
        yield server


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# --- names that the address and the server give ------------------------------------------------------------------------


def downloaded_name(address: str) -> str:
    remote = resolve(address)
    return filename_of(remote, download(remote.url))


def test_the_address_names_the_file(web: Web) -> None:
    assert downloaded_name(web.answer("/a/n%20b.ipynb", NOTEBOOK)) == "n b.ipynb"


def test_the_address_after_redirects_names_the_file(web: Web) -> None:
    web.answer("/files/real.ipynb", NOTEBOOK)
    assert downloaded_name(web.answer("/gist/raw", b"", 302, Location="/files/real.ipynb")) == "real.ipynb"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="My work.ipynb"', "My work.ipynb"),
        ("attachment; filename*=UTF-8''na%C3%AFve.ipynb", "naïve.ipynb"),
        ("attachment; filename*=nonsense''%FF.ipynb", None),
        ("attachment", "download.ipynb"),
    ],
)
def test_the_server_names_what_the_address_does_not(header: str, name: str | None, web: Web) -> None:
    assert name in (downloaded_name(web.answer("/download?id=3", NOTEBOOK, Content_Disposition=header)), None)


def test_the_name_in_the_address_wins_over_the_servers(web: Web) -> None:
    address = web.answer("/n.ipynb", NOTEBOOK, Content_Disposition='attachment; filename="other.ipynb"')
    assert downloaded_name(address) == "n.ipynb"


# --- is it a notebook? ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\n <!DOCTYPE html><html>Sign in</html>", "is a web page"),
        (b"\xef\xbb\xbf<html>", "is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
        (b"", "not JSON"),
        (b"404: Not Found", "not JSON"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "another kind"),
        (b'{"cells": []}', "another kind"),
        (b'{"nbformat": true, "cells": []}', "another kind"),
        (b'{"nbformat": 4, "cells": {}}', "another kind"),
    ],
)
def test_a_file_that_is_not_a_notebook_is_named_for_what_it_is(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_notebook(data, "it")


@pytest.mark.parametrize(
    "data",
    [NOTEBOOK, b"\xef\xbb\xbf" + NOTEBOOK, b'{"nbformat": 3, "worksheets": []}', b'{"nbformat": 4, "cells": [NaN]}'],
)
def test_notebooks_of_all_formats_are_accepted(data: bytes) -> None:
    assert read_notebook(data, "it")["nbformat"] in (3, 4)


# --- names ------------------------------------------------------------------------------------------------------------

HOSTILE = [
    "../../hostile.ipynb",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a/b/../../../c.ipynb",
    "..\\..\\hostile.ipynb",
    "C:\\hostile.ipynb",
    ".bashrc",
    ".ipynb",
    ".../.ssh/authorized_keys",
    "n\0.ipynb",
    "n\n\x1b[2J.ipynb",
    "-rf.ipynb",
    "~/.bashrc",
    "\u202egpj.ipynb",
    "ü" * 300 + ".ipynb",
    "n\udcff.ipynb",
    "con.ipynb/",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_name_leads_out_of_the_folder(hostile: str, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er" / "lab"
    folder.mkdir(parents=True)
    saved = save_new(str(folder), hostile, NOTEBOOK)
    assert os.path.dirname(os.path.realpath(saved)) == os.path.realpath(folder)
    (name,) = names(folder)
    assert name == safe_name(hostile) == safe_name(name)
    assert name.endswith(".ipynb")
    assert name.isprintable()
    assert name[0] not in ".-~ "
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder / name]


@pytest.mark.parametrize("hostile", [name for name in HOSTILE if name.isascii() and name.isprintable()])
def test_no_header_leads_out_of_the_folder(hostile: str, web: Web, tmp_path: Path) -> None:
    quoted = hostile.replace("\\", "\\\\")
    address = web.answer("/download", NOTEBOOK, Content_Disposition=f'attachment; filename="{quoted}"')
    folder = tmp_path / "lab"
    folder.mkdir()
    assert os.path.dirname(import_notebook(address, str(folder), str(folder)).path) == str(folder)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder / names(folder)[0]]


@pytest.mark.parametrize(
    "path", ["/..%2F..%2Fhostile.ipynb", "/%2Fetc%2Fhostile.ipynb", "/a/..%5C..%5Chostile.ipynb", "/%00.ipynb"]
)
def test_no_address_leads_out_of_the_folder(path: str, web: Web, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    import_notebook(web.answer(path, NOTEBOOK), str(folder), str(folder))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder / names(folder)[0]]


# --- saving -----------------------------------------------------------------------------------------------------------


def test_no_file_is_overwritten_and_no_link_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "lab", tmp_path / "outside.ipynb"
    folder.mkdir()
    (folder / "n.ipynb").write_text("mine")
    (folder / "n (1).ipynb").symlink_to(outside)  # leads nowhere, yet
    (folder / "n (2).ipynb").mkdir()
    assert save_new(str(folder), "n.ipynb", NOTEBOOK) == str(folder / "n (3).ipynb")
    assert (folder / "n.ipynb").read_text() == "mine"
    assert not outside.exists()


def test_a_new_file_at_an_old_path_inherits_no_grants(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    old = save_new(str(folder), "n.ipynb", NOTEBOOK)
    set_secret("A", "x")
    grant("A", old)
    os.unlink(old)
    assert save_new(str(folder), "n.ipynb", NOTEBOOK) == old
    assert list_secrets()[0].notebooks == ()


def test_a_file_in_the_labs_folder_stays_where_it_is(tmp_path: Path) -> None:
    root = tmp_path / "lab"
    (root / "sub" / ".hidden").mkdir(parents=True)
    inside, hidden, outside = root / "sub" / "n.ipynb", root / "sub" / ".hidden" / "h.ipynb", tmp_path / "o.ipynb"
    for path in (inside, hidden, outside):
        path.write_bytes(NOTEBOOK)
    imported = import_notebook(str(inside), str(root), str(root))
    assert (imported.path, imported.copied, imported.colab) == (str(inside), False, True)
    for path in (hidden, outside):
        imported = import_notebook(str(path), str(root), str(root))
        assert (imported.path, imported.copied, imported.source) == (str(root / path.name), True, str(path))
    assert import_notebook(str(outside), str(root), str(root)).path == str(root / "o (1).ipynb")


def test_a_file_that_cannot_be_imported_is_explained(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "text.ipynb").write_text("print(1)")
    for name, message in (
        ("none.ipynb", "does not exist"),
        (".", "not a regular file"),
        ("pipe.ipynb", "not a regular file"),
        ("text.ipynb", "not JSON"),
    ):
        with pytest.raises(InputError, match=message):
            import_notebook(str(tmp_path / name), str(tmp_path), str(tmp_path))
