"""The functions of `ownlab.data`: in this environment, and through a kernel's facade where ownlab is not installed."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guest.data.samples import make_folder, tar_of
from tests.instruments.data.file_server import serve_files

import ownlab.data
from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab_guest.kernel import data_commands

SRC = Path(__file__).resolve().parents[3] / "src"
COMMANDS = ["bench", "get", "inspect", "pack", "stage", "unpack", "verify"]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OWNLAB_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text(f"[data]\nstage_folder = {json.dumps(str(tmp_path / 'scratch'))}\n")
    monkeypatch.chdir(tmp_path)


def in_kernel(code: str) -> Any:
    """Run code in a Python that has no libraries at all, only the facade; it prints JSON."""
    facade = SRC / "ownlab_guest" / "facade"
    script = f"import sys, json\nsys.path.append({str(facade)!r})\nimport ownlab.data\n{code}"
    environment = {**os.environ, "OWNLAB_HOST": sys.executable}
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_from_an_address_to_samples(tmp_path: Path) -> None:
    files = make_folder(tmp_path / "in", 30)
    archive = tar_of(files, tmp_path / "x.tar.gz", "w:gz").read_bytes()
    with serve_files() as server:
        url = server.put("/train.tar.gz", archive)
        got = ownlab.data.get(url, folder="data")
    assert [each.state for each in got.files] == ["downloaded"]
    unpacked = ownlab.data.unpack("data/train.tar.gz")
    assert (unpacked.files, unpacked.folder) == (30, str(tmp_path / "train"))
    assert ownlab.data.inspect("train").record.files == 30
    packed = ownlab.data.pack(Path("data/train.tar.gz"), Path("packed"), shard_size="64KiB")
    assert (packed.samples, packed.shards > 1, packed.skipped) == (30, True, 0)
    assert ownlab.data.verify("packed", full=True).ok
    staged = ownlab.data.stage("packed")
    assert sorted(bytes(data) for data, _ in ownlab.data.open(staged.path, decode=False)) == sorted(files.values())
    measured = ownlab.data.bench("packed", need=1e12)
    assert (measured.options[0].meets_need, measured.measured.kind) == (False, "packed")


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an archive"):
        ownlab.data.unpack(__file__)
    with pytest.raises(OwnlabError, match="There is no"):
        ownlab.data.pack("nothing", "out")
    with pytest.raises(UsageError, match="Unknown source of data"):
        ownlab.data.get("nothing")
    with pytest.raises(UsageError, match="shard-size"):
        ownlab.data.pack("nothing", "out", shard_size="many")
    with pytest.raises(TypeError, match="colour"):
        ownlab.data.pack("nothing", "out", colour="red")  # type: ignore[call-arg]


def test_in_a_kernel_without_ownlab(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 12)
    seen = in_kernel(
        "from pathlib import Path\n"
        "packed = ownlab.data.pack(Path('in'), 'packed', seed=3)\n"
        "found = ownlab.data.inspect('packed')\n"
        "print(json.dumps([type(packed).__module__, packed.samples, packed.classes, repr(packed), found.record.kind,\n"
        "    repr(found), len(list(ownlab.data.open('packed', decode=False))), found._repr_html_()]))"
    )
    here = ownlab.data.pack("in", "other", seed=3)
    assert seen[:3] == [type(here).__module__, 12, list(here.classes)]
    assert seen[3].startswith("Packed(folder=")
    found = ownlab.data.inspect("packed")
    assert seen[4:] == ["packed", repr(found), 12, found._repr_html_()]


def test_errors_in_a_kernel_without_ownlab() -> None:
    calls = (
        "unpack('nothing.zip')",
        "pack('nothing', 'out', colour=1)",
        "get()",
        "pack('nothing', 'out', shard_size='many')",
    )
    code = "said = []\n"
    for call in calls:
        code += (
            f"try:\n    ownlab.data.{call}\nexcept Exception as exc:\n    said.append([type(exc).__name__, str(exc)])\n"
        )
    said = in_kernel(f"{code}print(json.dumps(said))")
    assert [kind for kind, _ in said] == ["InputError", "TypeError", "UsageError", "UsageError"]
    assert "colour" in said[1][1]


def test_both_kinds_of_kernels_have_the_same_functions() -> None:
    assert sorted(data_commands.__all__) == COMMANDS
    assert set(COMMANDS) < set(ownlab.data.__all__)
    for name in COMMANDS:
        assert inspect.getdoc(getattr(data_commands, name))
        assert inspect.getdoc(getattr(ownlab.data, name))


def test_reading_loads_none_of_it() -> None:
    code = "import sys, ownlab.data\nprint(sorted({'msgspec', 'rich', 'click'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
