"""Workspaces of convolutions in half precision, compared with measurements on an H200 (torch 2.11, cuDNN 9.19, 2026-11-15)."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.guest.fit.paths import LAUNCH

MIB = 1024**2
# Images, channels in and out, kernel, stride, width, groups; MiB of the forward and, at most, of the backward beside its results.
# One of each kind that the rules tell apart, out of 370 shapes. None: the rules miss it (1.125 and 11.157 were taken).
SEEN: list[tuple[tuple[int, ...], float, float | None]] = [
    ((32, 512, 512, 3, 1, 7, 1), 7.563, 7.563),
    ((32, 64, 64, 3, 1, 56, 1), 24.571, 26.399),
    ((32, 64, 128, 3, 1, 56, 1), 36.891, 40.548),
    ((32, 512, 512, 3, 1, 14, 32), 12.391, 12.391),
    ((32, 512, 512, 1, 1, 14, 1), 0.0, 12.25),
    ((32, 512, 512, 1, 1, 7, 1), 3.063, 3.063),
    ((32, 96, 96, 1, 1, 7, 1), 0.0, None),
    ((32, 512, 512, 1, 1, 56, 1), 0.0, 195.5),
    ((8, 128, 128, 1, 2, 56, 1), 7.657, None),
    ((32, 128, 128, 1, 2, 56, 1), 0.0, 34.125),
]
ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from ownlab_guest.fit.convolution_workspaces import backward_workspaces, forward_workspace
from ownlab_guest.fit.request import Card
rows = []
for b, ci, co, k, s, hw, g in json.loads(sys.argv[2]):
    x = torch.empty(b, ci, hw, hw, dtype=torch.bfloat16, device="meta")
    w = torch.empty(co, ci // g, k, k, dtype=torch.bfloat16, device="meta")
    how = [s, s], [k // 2, k // 2], [1, 1], False, [0, 0], g
    y = torch.ops.aten.convolution(x, w, None, *how)
    first, second = backward_workspaces((y, x, w, None, *how, [True, True, False]), Card())
    # The second is taken when both results are there, the first before that of the weight is.
    rows.append([forward_workspace((x, w, None, *how), y, Card()), max(first - w.numel() * 2, second)])
print(json.dumps(rows))
"""


def test_halves_take_what_was_seen(torch_python: str) -> None:
    shapes = json.dumps([shape for shape, _, _ in SEEN])
    ran = subprocess.run(
        [torch_python, "-c", ASK, str(LAUNCH.parents[1]), shapes],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    for (shape, forward, backward), (one, other) in zip(SEEN, json.loads(ran.stdout), strict=True):
        assert one / MIB == pytest.approx(forward, rel=0.01, abs=0.01), shape
        if backward is not None:
            assert other / MIB == pytest.approx(backward, rel=0.1, abs=0.01), shape
