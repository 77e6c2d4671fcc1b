"""The most important outputs in Chinese, kept as files: read them as a newcomer would. `make golden` rewrites them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.render.pictures import FOLDER
from tests.render.test_golden import compare, compare_picture
from tests.shown_outputs import WIDTH, outputs_in
from translations.catalogues import read_catalogue

from ownlab.render.wide_text import cell_width

pytestmark = pytest.mark.skipif(
    not read_catalogue("zh_CN", "ownlab").get("Commands"), reason="the Chinese catalogues are not filled in"
)

ROOT = Path(__file__).resolve().parents[1]
KEPT = (
    "doctor-v100-driver418",
    "doctor-h200",
    "fit",
    "top",
    "top-screen",
    "why-no-workers",
    "runtimes",
    "usage",
    "ownlab --help",
    "ownlab gpus A100",
    "ownlab doctor --explain driver-old",
    "ownlab bogus",
    "ownlab top --interval x",
)
# Lines of code, addresses and names are not wrapped.
UNWRAPPED = ("pip install", "DataLoader(")


@pytest.mark.parametrize("name", KEPT)
def test_golden_chinese_output(name: str) -> None:
    compare(f"zh_CN/{name.replace('ownlab ', 'ownlab-').replace(' ', '-')}.txt", outputs_in("zh_CN")[name])


def test_generated_chinese_pictures() -> None:
    """Sphinx takes NAME.zh_CN.svg for the Chinese site."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.render.pictures", "zh_CN"], cwd=ROOT, capture_output=True, timeout=600, check=True
    )
    for name, drawn in json.loads(ran.stdout).items():
        compare_picture(FOLDER / f"{name}.zh_CN.svg", drawn)


def test_no_line_is_wider_than_the_terminal() -> None:
    recorded = [shown for name, shown in outputs_in("zh_CN").items() if not name.startswith("ownlab ")]
    wide = [
        line
        for shown in recorded
        for line in shown.splitlines()
        if cell_width(line) > WIDTH and not any(words in line for words in UNWRAPPED)
    ]
    assert recorded
    assert wide == []


def test_no_line_begins_with_punctuation() -> None:
    lines = [line.strip() for shown in outputs_in("zh_CN").values() for line in shown.splitlines()]
    assert not [line for line in lines if line.startswith(("，", "。", "、", "；", "：", "）"))]


def test_sentences_end_as_chinese_does() -> None:
    """No English full stop after Chinese or a quoted name, and no space after a full stop or colon of Chinese."""
    lines = [line.strip() for shown in outputs_in("zh_CN").values() for line in shown.splitlines()]
    assert not [line for line in lines if re.search(r"[\u4e00-\u9fff）']\.$|[。：] \S", line)]


def test_lists_have_one_separator() -> None:
    shown = outputs_in("zh_CN")
    assert "错误：缺少选项 '-o' / '--out'。" in shown["ownlab data pack x"]
    assert "torch 2.11 (CUDA 13.0)、jax 0.11" in shown["doctor-h200"]


def test_titles_of_rules_wrap_in_their_column() -> None:
    lines = outputs_in("zh_CN")["rules"].splitlines()
    column = cell_width(lines[0].partition("有显卡")[0])
    wrapped = [line for line in lines if line.startswith(" ")]
    assert wrapped
    assert {len(line) - len(line.lstrip()) for line in wrapped} == {column}


def test_sentences_of_a_saved_machine_are_translated() -> None:
    shown = outputs_in("zh_CN")["machine-cpu"]
    assert "没有已知平台的迹象" in shown
    assert "not read" not in shown
