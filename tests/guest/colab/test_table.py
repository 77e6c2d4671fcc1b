"""The numbers of a table of google.colab, in the HTML and in its script."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

SITE = (
    Path(__file__).resolve().parents[3] / "src" / "ownlab_guest" / "colab" / "site" / "google" / "colab" / "_table.py"
)

NUMBERS = {
    1 / 3: "0.333333",
    2.5: "2.5",
    1234567.891: "1234568",
    123.456789: "123.457",
    -0.00012345678: "-0.000123",
    1.5e-7: "1.5e-07",
    3.0: "3",
    7: "7",
}


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("colab_table", SITE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numbers_are_rounded_and_text_is_not(table: ModuleType) -> None:
    html = table.html(["n", "word"], [[number, "0.33333333"] for number in NUMBERS], 25)
    cells = re.findall("<td>(.*?)</td>", html)
    assert cells[::2] == list(NUMBERS.values())
    assert set(cells[1::2]) == {"0.33333333"}
    assert json.dumps(1 / 3) in html  # the script has the whole number, for sorting and the title


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_script_rounds_in_the_same_way(table: ModuleType) -> None:
    function = re.search(r"const text = .*?;\n.*?const rounded = .*?\n  };", table._SCRIPT, re.DOTALL)
    assert function
    code = f"{function[0]}\nconsole.log(JSON.stringify({json.dumps(list(NUMBERS))}.map(rounded)))"
    ran = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ran.stdout) == [text.replace("e-07", "e-7") for text in NUMBERS.values()]
