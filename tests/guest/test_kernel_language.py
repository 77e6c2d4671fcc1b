"""What functions say in a notebook is in the language of its kernel (OWNLAB_LANG), with ownlab in its environment and without."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from tests.prepared_python import BESIDE, IPYTHON, run

from ownlab_guest.text import Text, listing, sentences, shown, speak, text

CHINESE = re.compile("[\u4e00-\u9fff]")
SCRIPT = """
import json, sys
import ownlab, ownlab.data

said = []

def fails(call):
    try:
        call()
    except Exception as exc:
        said.append([str(exc), getattr(exc, "hint", "")])
    else:
        raise SystemExit("no error")

fails(lambda: ownlab.on_end(3))
fails(lambda: ownlab.fit(None, (1, 2), seq=0))
fails(lambda: ownlab.why(3))
fails(lambda: ownlab.why(print, steps=2))
fails(lambda: ownlab.watch().report())
fails(lambda: ownlab.watch(0.01))
fails(lambda: ownlab.data.open("missing"))
fails(lambda: ownlab.data.inspect("missing"))
fails(lambda: ownlab.data.pack("missing", "out", shard_size="1 apple"))
print(json.dumps({"said": said, "gettext": "gettext" in sys.modules}))
"""


def said_in(code: str, language: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        run(sys.executable, code + SCRIPT, OWNLAB_LANG=language, OWNLAB_HOST=sys.executable)
    )
    return answer


@pytest.mark.parametrize("beside", [BESIDE, IPYTHON], ids=["with ownlab", "without ownlab"])
def test_errors_of_functions_are_in_the_language_of_the_kernel(beside: str) -> None:
    chinese = said_in(beside, "zh_CN")["said"]
    assert [each for each in chinese if not CHINESE.search(each[0])] == []
    assert chinese[0] == ["on_end 接受函数，不能是 3", ""]
    assert chinese[2] == ["ownlab.why 需要函数，不能是 int", "例如：ownlab.why(train, model, loader)"]
    english = said_in(beside, "en")["said"]
    assert [each for each in english if CHINESE.search("".join(each))] == []
    assert len(english) == len(chinese)


def test_functions_say_the_same_with_and_without_ownlab() -> None:
    assert said_in(BESIDE, "zh_CN")["said"] == said_in(IPYTHON, "zh_CN")["said"]


def test_a_kernel_in_english_reads_no_catalogue() -> None:
    code = "import sys\nimport ownlab_guest.kernel\nprint(int('ownlab_guest.text' in sys.modules))\n"
    assert run(sys.executable, code, OWNLAB_LANG="en").strip() == "0"


@pytest.fixture
def in_chinese() -> Any:
    speak("zh_CN")
    yield
    speak("en")


@pytest.mark.usefixtures("in_chinese")
def test_sentences_within_sentences_have_chinese_spaces() -> None:
    outer = text(
        "Mountpoint must be inside {folder}: {reason}", folder="/my drive", reason=text("mounting took too long")
    )
    assert shown(outer) == "挂载点必须在 /my drive 之内：挂载用时太久"
    assert shown(listing(["a b", "c", "d"])) == "a b、c 和 d"
    two = sentences([text("The drive is writable: read-only mounts are not available either."), "Plain."])
    assert re.fullmatch(r"[^ ]+。 ?Plain\.", shown(two))
    assert shown(text("nothing of this {kind} is known: {{}}", kind="sort")) == "nothing of this sort is known: {}"


@pytest.mark.usefixtures("in_chinese")
def test_what_is_not_a_sentence_of_ours_is_shown_as_it_is() -> None:
    assert shown("Permission denied") == "Permission denied"


def test_without_a_language_a_sentence_keeps_its_template() -> None:
    message = text("mounting took too long")
    assert isinstance(shown(message), Text)
