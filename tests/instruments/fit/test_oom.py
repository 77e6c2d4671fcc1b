"""Real out-of-memory messages: their figures, cause, and fixes."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from ownlab.catalog.oom_messages import OomMessage
from ownlab.errors import InputError, NotRecognised
from ownlab.instruments.fit.oom import OomExplanation, explain_argument, explain_oom
from ownlab.instruments.fit.remedies import REMEDIES, remedy_named
from ownlab.json_encoding import encode_json
from ownlab.units import format_bytes, parse_bytes

FOLDER = Path(__file__).resolve().parents[2] / "oom"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))
FIGURES = [name.removesuffix("_bytes") for name in dir(OomMessage) if name.endswith("_bytes")]


class Real(NamedTuple):
    head: dict[str, str]
    text: str

    @property
    def says(self) -> dict[str, str]:
        return dict(pair.split("=") for pair in self.head.get("says", "").split())


def real(name: str) -> Real:
    head, _, text = (FOLDER / f"{name}.txt").read_text().partition("\n\n")
    return Real(dict(line.removeprefix("# ").split(": ", 1) for line in head.splitlines()), text)


def explained(name: str) -> OomExplanation:
    return explain_oom(real(name).text)


def test_there_are_messages_of_every_age_and_kind() -> None:
    kinds = Counter(re.match(r"[a-z]+", name)[0] for name in NAMES)  # type: ignore[index]
    assert kinds["torch"] >= 25
    assert {"hip", "xpu", "mps", "cuda", "cublas", "llamacpp", "tensorflow", "jax", "linux", "slurm"} <= kinds.keys()
    assert all(re.match(r"[\w.-]+/[\w.-]+#\d+", real(name).head["source"]) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_message_is_read_and_its_cause_found(name: str) -> None:
    reported = real(name)
    answer = explain_oom(reported.text)
    expected = dict(reported.says)
    assert answer.cause == reported.head["cause"]
    assert (answer.phase or "") == expected.pop("phase", "")
    assert answer.line.replace(", line ", ",") == expected.pop("line", "")
    assert str(answer.message.device) == expected.pop("device", "None")
    assert sum(holder.bytes for holder in answer.message.others) == parse_bytes(expected.pop("others", "0"))
    read = {name: getattr(answer.message, f"{name}_bytes") for name in FIGURES}
    if "unallocated" not in expected and "reserved" in expected:
        del read["unallocated"]  # the difference of two reported values
    elif "reserved" not in expected:
        del read["reserved"]
    assert {figure: size for figure, size in read.items() if size is not None} == {
        figure: parse_bytes(size) for figure, size in expected.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_an_explanation_is_complete(name: str) -> None:
    answer = explained(name)
    assert answer.sentence.endswith(".")
    assert "unknown amount" not in answer.sentence
    assert answer.fix or answer.remedies
    assert len(set(answer.fix)) == len(answer.fix)
    assert answer.message.quoted
    assert msgspec.json.decode(encode_json(answer), type=OomExplanation) == answer


def test_equal_messages_of_ranks_count_once() -> None:
    line = real("torch-2.5-rank").text.strip()
    eight = "\n".join(line.replace("[rank0]", f"[rank{rank}]") for rank in range(8))
    assert explain_oom(eight).more == 0
    assert explain_oom(eight.replace("158.00 MiB", "160.00 MiB", 1)).more == 1


def test_the_message_with_most_figures_is_explained() -> None:
    both = real("cuda-bare").text + real("torch-2.2-full").text + real("linux-oom-killer").text
    answer = explain_oom(both)
    assert (answer.message.speaker, answer.cause, answer.more) == ("torch", "full", 2)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_message_that_a_console_broke_into_lines_is_read(width: int) -> None:
    words, lines = real("torch-2.1-fragmented").text.split(), [""]
    for word in words:
        lines += [""] if len(lines[-1]) + len(word) >= width else []
        lines[-1] += f"{word} "
    assert explain_oom("\n".join(lines)).message == explained("torch-2.1-fragmented").message


def test_colours_quotes_and_log_stamps_do_not_matter() -> None:
    text = real("torch-1.9-full").text.strip()
    for dressed in (f"\x1b[31m{text}\x1b[0m", f"> > {text}", f"2026-11-15 10:00:00,123 {text}", f"```\n{text}\n```"):
        assert explain_oom(dressed).message.tried_bytes == explain_oom(text).message.tried_bytes
    assert explain_oom(text.encode("utf-16")).cause == "full"


def test_the_fix_for_fragments_suits_the_version() -> None:
    assert (
        explained("torch-2.1-fragmented").fix[0].startswith("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    )
    assert explained("torch-1.8-fragmented").fix[0].startswith("Update torch")
    old = real("torch-1.8-fragmented").text.strip() + " try setting max_split_size_mb to avoid fragmentation"
    assert "max_split_size_mb:512" in explain_oom(old).fix[0]


def test_windows_gets_no_expandable_segments() -> None:
    frame = '  File "D:\\work\\train.py", line 3, in <module>\n'
    answer = explain_oom(frame + real("torch-2.1-fragmented").text)
    assert answer.line == "train.py, line 3"
    assert not any("expandable" in step for step in answer.fix)


def test_others_on_the_card_come_before_the_model() -> None:
    answer = explained("torch-1.3-optimizer")
    assert answer.fix[0].startswith("nvidia-smi")
    assert answer.remedies == ()
    assert "Other processes hold about 5.2 GiB of card 0" in answer.sentence


def test_a_smaller_batch_is_not_advised_while_weights_are_loaded() -> None:
    frames = 'Traceback (most recent call last):\n  File "a.py", line 7, in main\n    model.to(device)\n'
    codes = [remedy.code for remedy in explain_oom(frames + real("torch-2.2-full").text).remedies]
    assert codes[0] == "smaller-weights"
    assert "smaller-batch" not in codes


def test_a_smaller_optimizer_is_suggested_for_an_optimizer_that_does_not_fit() -> None:
    frames = 'Traceback (most recent call last):\n  File "a.py", line 7, in main\n    optimizer.step()\n'
    answer = explain_oom(frames + real("torch-2.2-full").text)
    assert answer.remedies[0].code == "small-optimizer"
    assert any("optimizer's step" in step for step in answer.fix)


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        ("File ~/nets/unet.py:41, in UNet.forward(self, x)", "unet.py, line 41"),
        ("Cell In[5], line 3", "Cell In[5], line 3"),
        ('  File "/home/me/train.py", line 9, in <module>', "train.py, line 9"),
    ],
)
def test_the_line_of_the_users_code_is_found(frame: str, line: str) -> None:
    inner = '  File "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", line 1, in _call_impl\n'
    assert explain_oom(f"{frame}\n{inner}{real('torch-2.2-full').text}").line == line


def test_0_bytes_of_a_process_are_ignored() -> None:
    text = real("torch-2.2-full").text.replace("this process has 23.60 GiB", "this process has 0 bytes")
    assert explain_oom(text).message.process_bytes is None


def test_a_large_other_process_is_named() -> None:
    text = real("torch-2.2-full").text.replace("22.90 GiB is", "2.90 GiB is").replace("23.60 GiB", "3.50 GiB")
    answer = explain_oom(text.replace("is free. ", "is free. Process 4711 has 20.10 GiB memory in use. "))
    assert answer.cause == "others"
    assert "process 4711 holds 20.1 GiB" in answer.reasons


@pytest.mark.parametrize("text", ["", "all is well", "RuntimeError: CUDA error: invalid device ordinal", "\x1b[0m"])
def test_text_without_such_a_message_is_rejected(text: str) -> None:
    with pytest.raises(NotRecognised, match="has no message about memory that ran out") as raised:
        explain_oom(text)
    assert "CUBLAS_STATUS_ALLOC_FAILED" in raised.value.hint


@pytest.mark.parametrize("name", NAMES)
def test_a_truncated_message_is_explained_or_rejected(name: str) -> None:
    text = real(name).text
    for end in range(0, len(text), 23):
        with contextlib.suppress(NotRecognised):
            assert explain_oom(text[:end]).fix


def test_a_message_at_the_end_of_a_long_log_is_found() -> None:
    log = "step 17: loss 0.53, 12.1 it/s, Tried 3 GPU 0; free of memory\n" * 100_000
    assert explain_oom(log + real("torch-2.2-full").text).cause == "full"


def test_binary_data_is_rejected() -> None:
    with pytest.raises(InputError):
        explain_oom(bytes(range(256)) * 100)


def test_the_option_takes_a_file_or_the_message_itself(tmp_path: Path) -> None:
    text = real("torch-2.1-fragmented").text
    file = tmp_path / "my log.txt"
    file.write_text(text)
    assert explain_argument(str(file)) == explain_argument(text) == explain_oom(text)
    with pytest.raises(InputError, match="does not exist"):
        explain_argument(str(tmp_path / "nothing.txt"))
    with pytest.raises(NotRecognised, match="the text"):
        explain_argument("all is well " * 1000)


def test_remedies_have_unique_codes() -> None:
    assert len({remedy.code for remedy in REMEDIES}) == len(REMEDIES)
    assert all(remedy_named(remedy.code) is remedy for remedy in REMEDIES)
    assert all(not remedy.option or remedy.option.startswith("--") for remedy in REMEDIES)


def test_sizes_are_formatted() -> None:
    answer = explained("torch-2.1-fragmented")
    assert f"held by tensors: {format_bytes(parse_bytes('12.09 GiB'))}" in answer.reasons
