"""uv's output and its indexes: what a terminal of its own shows, and what pip is configured to use."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.config.loader import resolve_lab_options
from ownlab.lab.environments.uv import Downloads, UvFailed, read_output, run_uv, uv_environment, without_credentials

# As uv 0.13 draws: a frame begins with the count, a row per running download, and the cursor goes back up.
_DRAWN = (
    "Resolved 3 packages in 1ms\n"
    "\u280b Preparing packages... (0/3)   \r\x1b[2K"
    "\u2819 Preparing packages... (0/3)   torch    ------------------------------  1.00 MiB/2.00 MiB   "
    "numpy    ------------------------------ 512.00 KiB/1.00 MiB   \x1b[1A\r\x1b[2K"
    "\u2819 Preparing packages... (1/3)   torch    ------------------------------  1.50 MiB/2.00 MiB   \x1b[1A\r\x1b[2K"
    "\u2819 Preparing packages... (3/3)   \r\x1b[2KPrepared 3 packages in 5ms\nInstalled 3 packages in 1ms\n + torch==2\n"
)
MIB = 2**20


def fake_uv(folder: Path, script: str) -> dict[str, str]:
    """The environment in which `uv` is this script."""
    program = folder / "uv"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


@pytest.fixture(autouse=True)
def no_own_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ownlab.lab.environments.uv.sysconfig.get_path", lambda name: str(tmp_path / "none"))


def test_bars_are_read_from_uvs_own_terminal(tmp_path: Path) -> None:
    (tmp_path / "drawn").write_text(_DRAWN)
    seen: list[Downloads] = []
    # In pieces that are cut anywhere, as a terminal delivers them.
    piece = f"dd if={tmp_path}/drawn bs=37 count=1 skip=$i status=none"
    loop = f"i=0; while [ $i -lt {len(_DRAWN.encode()) // 37 + 1} ]; do {piece}; i=$((i + 1)); done"
    environ = fake_uv(tmp_path, f"test -t 1 && test -t 2 || exit 9; {loop}")
    read_output(["pip", "install"], environ, lambda downloads: seen.append(downloads))
    assert seen[-1].installing
    assert (seen[-1].prepared, seen[-1].packages) == (1, 3)
    assert seen[-1].files == {"torch": (int(1.5 * MIB), 2 * MIB), "numpy": (MIB, MIB)}, (
        "numpy's bar is gone: it is complete"
    )


def test_a_failure_quotes_uv_without_passwords(tmp_path: Path) -> None:
    environ = fake_uv(tmp_path, "echo 'error: Failed to fetch: https://me:secret@host/x, dns error' >&2; exit 2")
    with pytest.raises(UvFailed, match="cannot be reached") as raised:
        run_uv(["pip", "compile"], environ)
    assert raised.value.unreachable
    assert "secret" not in raised.value.message
    assert "https://host/x" in raised.value.message
    with pytest.raises(UvFailed, match="cannot be reached"):
        read_output(["pip", "install"], environ, lambda downloads: None)


def test_an_exception_while_it_runs_ends_uv(tmp_path: Path) -> None:
    environ = fake_uv(
        tmp_path, f"trap 'echo ended > {tmp_path}/ended; exit 1' INT\ncat {tmp_path}/drawn\nwhile :; do sleep 0.1; done"
    )
    (tmp_path / "drawn").write_text(_DRAWN)

    def cancel(downloads: Downloads) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_output(["pip", "install"], environ, cancel)
    assert (tmp_path / "ended").read_text() == "ended\n"


def test_pips_configuration_is_used_where_uv_has_none(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://a/simple\nextra-index-url = https://b/simple\n  https://c/simple\n"
    )
    environ = {"PIP_CONFIG_FILE": str(config), "HOME": str(tmp_path), "PIP_FIND_LINKS": "/wheels /more"}
    options = resolve_lab_options(environ={"OWNLAB_CONFIG": str(tmp_path / "none")})
    variables = uv_environment(options, environ)
    assert variables["UV_DEFAULT_INDEX"] == "https://a/simple"
    assert variables["UV_INDEX"] == "https://b/simple https://c/simple"
    assert variables["UV_FIND_LINKS"] == "/wheels,/more"
    assert "UV_DEFAULT_INDEX" not in uv_environment(options, {**environ, "UV_INDEX_URL": "https://mine/"})
    named = resolve_lab_options(environ={"OWNLAB_CONFIG": "/none", "OWNLAB_ENVIRONMENTS_INDEX": "https://set/simple/"})
    assert (
        uv_environment(named, {**environ, "UV_INDEX_URL": "https://mine/"})["UV_DEFAULT_INDEX"] == "https://set/simple"
    )


def test_addresses_lose_their_credentials() -> None:
    assert without_credentials("x @ https://u:p@host/a\x1b[31m\x07") == "x @ https://host/a\ufffd"
