"""What only looks like an error: source code, words quoted in passing, errors that a program caught."""

from __future__ import annotations

import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste import read_paste
from ownlab.instruments.doctor.paste.program_output import spoken

TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/train.py", line 12, in <module>
    raise RuntimeError("Found no NVIDIA driver on your system")
  File "/srv/lib.py", line 40, in step
    if "CUDA out of memory" in str(error):
       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        retry("insufficient shared memory")
ValueError: batch 3 has a wrong shape
"""


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "    ", "ERROR 05-01 12:00:00 [core.py:12] "])
def test_the_source_of_a_traceback_is_not_said(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in TRACEBACK.splitlines())
    case = read_paste(text)
    (message,) = case.messages
    assert [line.removeprefix(prefix).split()[0] for line in message.text.splitlines()] == [
        "Traceback",
        "File",
        "File",
        "ValueError:",
    ]
    assert diagnose(case).findings == ()


def test_the_source_of_a_broken_traceback_is_not_said() -> None:
    text = (
        '  File\n"/opt/conda/envs/a-long-name/lib/python3.10/site-packages/torch/cuda/x.py", line 12, in check\n'
        '    raise RuntimeError("Something is wrong with this machine: Found no NVIDIA driver\non your system")\nKeyError: 3\n'
    )
    assert diagnose(read_paste(text)).findings == ()


def test_the_last_line_of_a_traceback_is_said_however_deep_it_stands() -> None:
    text = '  File "x.py", line 1, in f\n    return g()\n    torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n'
    assert [finding.code for finding in diagnose(read_paste(text)).findings] == ["out-of-memory"]


NOT_SAID = (
    'if "CUDA out of memory" in str(e):',
    'elif isinstance(e, RuntimeError) and "out of memory" in str(e):',
    "    except torch.cuda.OutOfMemoryError:",
    'raise RuntimeError("Found no NVIDIA driver on your system")',
    '----> 7 raise AssertionError("Torch not compiled with CUDA enabled")',
    '    298             raise AssertionError("Torch not compiled with CUDA enabled")',
    'message = "CUDA out of memory"',
    'In [3]: print("CUDA out of memory")',
    'message: str = f"CUDA out of memory in {step}"',
    'logger.warning("CUDA out of memory, batch %d", batch)',
    'print("CUDA error: no kernel image is available for execution on the device")',
    'throw std::runtime_error("CUDA out of memory");',
    '+    return "CUDA out of memory"',
    "2024-05-01 12:00:00 WARNING trainer: caught CUDA out of memory, retrying with batch 4",
    "INFO: recovered from CUDA out of memory, continuing",
)


@pytest.mark.parametrize("line", NOT_SAID)
def test_code_and_caught_errors_are_not_said(line: str) -> None:
    assert spoken([line]) == []
    assert diagnose(read_paste(f"Using cuda:0\n{line}\n")).findings == ()


@pytest.mark.parametrize(
    "line",
    [
        "I read about 'CUDA out of memory' in the docs, but here everything works fine.",
        'Our GPU job never shows "CUDA out of memory" any more.',
        "There is a page on `CUDA out of memory` errors; my torch code is fine.",
    ],
)
def test_words_quoted_in_passing_are_no_error(line: str) -> None:
    assert diagnose(read_paste(line)).findings == ()


SAID = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
    "RuntimeError('CUDA out of memory. Tried to allocate 20.00 MiB')",
    'I get "CUDA out of memory" when I train.',
    "It fails with 'CUDA out of memory' after an hour",
    "I see 'RuntimeError: CUDA out of memory' in the log",
    '{"level": "error", "message": "CUDA out of memory"}',
    'time=2024-05-01T12:00:00Z level=ERROR msg="CUDA out of memory"',
    "[12:00:00] worker said: 'CUDA out of memory'",
    "E       RuntimeError: CUDA out of memory",
)


@pytest.mark.parametrize("line", SAID)
def test_what_happened_is_an_error(line: str) -> None:
    assert spoken([line]) == [line]
    assert [finding.code for finding in diagnose(read_paste(line)).findings] == ["out-of-memory"]


def test_code_alone_is_about_accelerators_and_asks_for_more() -> None:
    case = read_paste('if "CUDA out of memory" in str(e):\n    torch.cuda.empty_cache()\n')
    assert case.recognised == ("words about accelerators",)
    assert [line.split("`")[1] for line in case.missing] == ["nvidia-smi", "python -m torch.utils.collect_env"]


def test_a_variable_set_in_code_is_kept() -> None:
    line = 'os.environ["CUDA_VISIBLE_DEVICES"] = "1"'
    assert spoken([line]) == [line]
