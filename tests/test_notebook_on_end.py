"""`on_end` as a notebook has it."""

from __future__ import annotations

import subprocess
import sys


def test_a_script_calls_them_at_its_end() -> None:
    code = "from ownlab.notebook import on_end\n\n@on_end\ndef save(): print('saved')\n\nprint('work')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert ran.stdout == "work\nsaved\n"
