"""torch on a real NVIDIA card inside a private /content, as root and as an ordinary user.

Needs torch and pytest beside the standard library. Where the machine lets nobody mount, the reason is the skip's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "src"
ORDINARY = 51234  # nobody's number
SECONDS = 300

INSIDE = """
import json, os, subprocess, sys
sys.path.insert(0, os.environ["SOURCE"])
from ownlab_guest.colab import content_folder as content
error = content.enter()
if error:
    print(json.dumps({"skip": error}))
    sys.exit()
sys.path.append(os.path.join(os.environ["SOURCE"], "ownlab_guest", "colab", "site"))
import torch
from google.colab import drive
torch.manual_seed(0)
one, other = torch.randn(2048, 2048, dtype=torch.float64), torch.randn(2048, 2048, dtype=torch.float64)
product = one.cuda() @ other.cuda()
torch.save(product, "/content/product.pt")
drive.mount("/content/drive")
torch.save({"kept": 1}, "/content/drive/MyDrive/kept.pt")
listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
workers = subprocess.run(
    [sys.executable, "-c", "import torch; print(torch.ones(8, device='cuda').sum().item())"], capture_output=True, text=True
)
print(json.dumps({
    "cwd": os.getcwd(),
    "uid": os.geteuid(),
    "error": (torch.load("/content/product.pt").cpu() - one @ other).abs().max().item(),
    "cards": torch.cuda.device_count(),
    "listed": listed.stdout.count("UUID"),
    "worker": workers.stdout.strip() or workers.stderr,
}))
"""


def multiply(uid: int) -> None:
    """A product of matrices in a process of this user, which has to be right and to leave its files outside."""
    before = Path("/proc/self/mountinfo").read_text()
    with tempfile.TemporaryDirectory(prefix="ownlab-") as folder:
        os.chmod(folder, 0o755)
        home = Path(folder) / "home"
        home.mkdir()
        who: dict[str, Any] = {}
        if uid != os.geteuid():
            os.chown(home, uid, uid)
            who = {"user": uid, "group": uid, "extra_groups": []}
        own = {"HOME": home, "SOURCE": SOURCE, "OWNLAB_CONTENT": home / "content", "OWNLAB_DRIVE": home / "drive"}
        environment = {
            **os.environ,
            **{name: str(path) for name, path in own.items()},
            "PYTHONDONTWRITEBYTECODE": "1",
            "USER": "ordinary",
        }
        ask = {"capture_output": True, "text": True, "timeout": SECONDS, "env": environment, "cwd": home, **who}
        try:
            able = subprocess.run([sys.executable, "-c", "import torch"], check=False, **ask)
        except OSError as exc:
            pytest.skip(f"user {uid} may not start {sys.executable}: {exc}")
        if able.returncode:
            pytest.skip(f"user {uid} has no torch: {able.stderr[-300:]}")
        ran = subprocess.run([sys.executable, "-c", INSIDE], check=False, **ask)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        answer = json.loads(ran.stdout.splitlines()[-1])
        if "skip" in answer:
            pytest.skip(answer["skip"])
        assert answer.pop("error") < 1e-9
        assert answer.pop("cards") == answer.pop("listed") > 0
        assert answer == {"cwd": "/content", "uid": uid, "worker": "8.0"}
        for made in (home / "content" / "product.pt", home / "drive" / "kept.pt"):
            assert made.stat().st_uid == uid
    assert Path("/proc/self/mountinfo").read_text() == before


def test_torch_in_content_as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be root")
    multiply(0)


def test_torch_in_content_as_an_ordinary_user() -> None:
    multiply(os.geteuid() or ORDINARY)
