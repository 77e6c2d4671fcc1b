"""The table of engines: entry points of installed packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ownlab.errors import LabError, UsageError
from ownlab.input_files import parse_toml
from ownlab.lab.engines.interface import Engine
from ownlab.lab.engines.registry import DEFAULT_ENGINE, GROUP, engine_names, find_engine

ROOT = Path(__file__).resolve().parents[3]
STRANGER = """
from ownlab.lab.engines.interface import Engine
class Cloud(Engine):
    name = "cloud"
    def offers(self, request=None): return ()
    def submit(self, task): raise NotImplementedError
    def status(self, jobs): return ()
    def cancel(self, job, how, why): pass
nothing = 7
"""


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with an engine, one that is none, and one that cannot be imported."""
    (tmp_path / "stranger_engine.py").write_text(STRANGER)
    about = tmp_path / "stranger_engine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger-engine\nVersion: 1.0\n")
    entries = [
        "cloud = stranger_engine:Cloud",
        "number = stranger_engine:nothing",
        "broken = stranger_engine.missing:X",
    ]
    (about / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *entries]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "stranger_engine", raising=False)


def test_the_default_engine_is_this_machine() -> None:
    assert find_engine(DEFAULT_ENGINE, {}).name == DEFAULT_ENGINE == "local"


def test_the_entry_points_of_ownlab_are_engines_of_these_names() -> None:
    project = parse_toml((ROOT / "pyproject.toml").read_bytes(), "pyproject.toml")["project"]
    for name, value in project["entry-points"][GROUP].items():
        module, _, attribute = value.partition(":")
        found = getattr(__import__(module, fromlist=[attribute]), attribute)
        assert issubclass(found, Engine)
        assert found.name == name


@pytest.mark.usefixtures("stranger")
def test_other_packages_add_engines() -> None:
    assert engine_names()[0] == DEFAULT_ENGINE
    assert "cloud" in engine_names()
    assert find_engine("cloud", {}).name == "cloud"


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize(("name", "said"), [("number", "is not an engine"), ("broken", "cannot be loaded")])
def test_a_broken_package_is_named(name: str, said: str) -> None:
    with pytest.raises(LabError, match=f"stranger-engine.*{said}"):
        find_engine(name, {})


def test_an_unknown_engine_is_refused_with_the_names_of_the_others() -> None:
    with pytest.raises(UsageError, match="There is no engine kubernetes; installed are local") as caught:
        find_engine("kubernetes", {})
    assert caught.value.hint
