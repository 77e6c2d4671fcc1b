"""The store of secrets, with real files and concurrent processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ownlab.errors import InputError, LabError, RecordError, UsageError
from ownlab.lab.secrets.store import (
    MAX_LENGTH,
    NotGranted,
    SecretNotFound,
    SecretValue,
    forget_notebook,
    grant,
    list_secrets,
    read_secret,
    remove_secret,
    revoke,
    set_secret,
)

VALUE = "hf_fOrTyTwO"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"OWNLAB_HOME": str(tmp_path / "home")}


@pytest.fixture
def notebook(tmp_path: Path) -> str:
    path = tmp_path / "a notebook.ipynb"
    path.write_text("{}")
    return str(path)


def files(home: dict[str, str]) -> list[Path]:
    return [path for path in Path(home["OWNLAB_HOME"]).rglob("*") if path.is_file()]


def test_a_secret_is_read_by_the_notebook_that_it_is_granted_to(home: dict[str, str], notebook: str) -> None:
    assert list_secrets(home) == ()
    assert set_secret("HF_TOKEN", VALUE, home).where == "file"
    with pytest.raises(NotGranted, match="HF_TOKEN") as refused:
        read_secret("HF_TOKEN", [notebook], home)
    assert f"ownlab secrets grant HF_TOKEN '{notebook}'" in refused.value.hint
    assert grant("HF_TOKEN", notebook, home).notebooks == (os.path.realpath(notebook),)
    assert read_secret("HF_TOKEN", [notebook], home).value == VALUE
    assert revoke("HF_TOKEN", notebook, home).notebooks == ()
    with pytest.raises(NotGranted):
        read_secret("HF_TOKEN", [notebook], home)
    remove_secret("HF_TOKEN", home)
    with pytest.raises(SecretNotFound):
        read_secret("HF_TOKEN", [notebook], home)
    assert not [path for path in files(home) if VALUE in path.read_text()]


def test_only_the_owner_can_read_what_is_written(home: dict[str, str]) -> None:
    before = os.umask(0)
    try:
        set_secret("A", VALUE, home)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(home)} == {0o600}
    assert stat.S_IMODE(os.stat(Path(home["OWNLAB_HOME"]) / "secrets").st_mode) == 0o700


def test_a_new_value_keeps_the_grants(home: dict[str, str], notebook: str) -> None:
    set_secret("A", "old", home)
    grant("A", notebook, home)
    set_secret("A", "new", home)
    assert read_secret("A", [notebook], home).value == "new"
    assert len(list_secrets(home)) == 1


def test_links_to_a_notebook_share_its_grants(home: dict[str, str], notebook: str, tmp_path: Path) -> None:
    link = tmp_path / "link.ipynb"
    link.symlink_to(notebook)
    set_secret("A", VALUE, home)
    grant("A", str(link), home)
    assert read_secret("A", [notebook], home).value == VALUE
    assert read_secret("A", [f"{tmp_path}/./no/../a notebook.ipynb"], home).value == VALUE
    link.unlink()
    link.write_text("{}")  # another one by now
    with pytest.raises(NotGranted):
        read_secret("A", [str(link)], home)


def test_one_granted_path_of_several_suffices(home: dict[str, str], notebook: str) -> None:
    set_secret("A", VALUE, home)
    grant("A", notebook, home)
    assert read_secret("A", ["/a/run/of/it.ipynb", notebook], home).value == VALUE


@pytest.mark.parametrize("paths", [[], [""], ["", ""], ["a\0b"], ["/no\udcff.ipynb"]])
def test_a_kernel_without_a_notebook_gets_no_secret(home: dict[str, str], notebook: str, paths: list[str]) -> None:
    set_secret("A", VALUE, home)
    grant("A", notebook, home)
    with pytest.raises(NotGranted) as refused:
        read_secret("A", paths, home)
    refused.value.hint.encode()  # it goes into a document


def test_a_missing_notebook_gets_no_grant(home: dict[str, str], tmp_path: Path, notebook: str) -> None:
    set_secret("A", VALUE, home)
    for nothing in ("none.ipynb", str(tmp_path), "", "/dev/null", f"{notebook}\0"):
        with pytest.raises(InputError, match="There is no notebook"):
            grant("A", nothing, home)
    assert list_secrets(home)[0].notebooks == ()


def test_a_new_notebook_at_an_old_path_has_no_grants(home: dict[str, str], notebook: str) -> None:
    forget_notebook(notebook, home)
    assert not os.path.exists(home["OWNLAB_HOME"])
    for name in ("A", "B"):
        set_secret(name, VALUE, home)
        grant(name, notebook, home)
    forget_notebook(notebook, home)
    assert [secret.notebooks for secret in list_secrets(home)] == [(), ()]


@pytest.mark.parametrize("name", ["", "A B", "A=hf_x", "-A", "A\n", "A\udcff", "\x1b[2J", "x" * 201])
def test_an_invalid_name_is_refused_and_not_repeated(home: dict[str, str], name: str) -> None:
    with pytest.raises(UsageError) as refused:
        set_secret(name, VALUE, home)
    assert not name or name not in f"{refused.value.message} {refused.value.hint.replace('HF_TOKEN', '')}"
    assert not os.path.exists(home["OWNLAB_HOME"])


@pytest.mark.parametrize("value", ["", "x" * (MAX_LENGTH + 1), f"{VALUE}\ud800"])
def test_an_invalid_value_is_refused_and_not_repeated(home: dict[str, str], value: str) -> None:
    with pytest.raises((UsageError, InputError)) as refused:
        set_secret("A", value, home)
    assert VALUE not in refused.value.message
    assert list_secrets(home) == ()


def test_any_text_is_kept_as_it_is(home: dict[str, str], notebook: str) -> None:
    value = ' {"a": "b"}\n\tß\U0001f600\0\\"  '
    set_secret("ключ", value, home)
    grant("ключ", notebook, home)
    assert read_secret("ключ", [notebook], home).value == value


def test_a_value_is_not_in_its_repr(home: dict[str, str], notebook: str) -> None:
    set_secret("A", VALUE, home)
    grant("A", notebook, home)
    assert VALUE not in f"{read_secret('A', [notebook], home)!r} {list_secrets(home)!r}"
    assert SecretValue(VALUE).value == VALUE


# --- what others may have done ----------------------------------------------------------------------------------------


def test_a_folder_that_others_can_enter_is_refused(home: dict[str, str]) -> None:
    set_secret("A", VALUE, home)
    folder = Path(home["OWNLAB_HOME"]) / "secrets"
    folder.chmod(0o755)
    for use in (lambda: list_secrets(home), lambda: set_secret("B", VALUE, home)):
        with pytest.raises(LabError, match="accessible to other users") as refused:
            use()
        assert "chmod 700" in refused.value.hint


def test_a_link_in_place_of_the_folder_or_the_file_is_not_followed(home: dict[str, str], tmp_path: Path) -> None:
    folder = Path(home["OWNLAB_HOME"]) / "secrets"
    folder.parent.mkdir(mode=0o700)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)
    with pytest.raises(LabError, match="is not a folder"):
        set_secret("A", VALUE, home)
    assert list(elsewhere.iterdir()) == []
    folder.unlink()
    set_secret("A", VALUE, home)
    (folder / "secrets.json").rename(elsewhere / "theirs.json")
    (folder / "secrets.json").symlink_to(elsewhere / "theirs.json")
    with pytest.raises(LabError, match="Cannot read"):
        list_secrets(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_of_another_user_is_refused() -> None:
    with tempfile.TemporaryDirectory() as place:  # pytest's own are closed to others
        home = {"OWNLAB_HOME": os.path.join(place, "home")}
        set_secret("A", VALUE, home)
        for folder in (place, home["OWNLAB_HOME"]):
            os.chmod(folder, 0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(LabError, match="belongs to another user"):
                list_secrets(home)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("text", ["", "{", '{"secrets": [{"name": "A", "value": "hf_fOrTyTwO", "changed": "no"}]}'])
def test_a_damaged_file_is_reported_without_its_content(home: dict[str, str], text: str) -> None:
    set_secret("A", VALUE, home)
    (Path(home["OWNLAB_HOME"]) / "secrets" / "secrets.json").write_text(text)
    with pytest.raises(RecordError) as refused:
        list_secrets(home)
    assert VALUE not in refused.value.message
    with pytest.raises(RecordError):
        set_secret("A", VALUE, home)


def test_concurrent_writers_lose_nothing(home: dict[str, str]) -> None:
    code = (
        "import sys; from ownlab.lab.secrets.store import set_secret\n"
        "for number in range(10): set_secret(f'{sys.argv[1]}{number}', 'x')"
    )
    environ = {**os.environ, **home}
    writers = [subprocess.Popen([sys.executable, "-c", code, name], env=environ) for name in "ABC"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(list_secrets(home)) == 30
    assert sorted(path.name for path in files(home)) == ["lock", "secrets.json"]
