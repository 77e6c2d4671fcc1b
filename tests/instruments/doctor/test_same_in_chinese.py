"""A diagnosis does not depend on the language that it is made in: the same findings, steps and order, in other words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.languages import translations
from ownlab.text import english_document, use_translations

PASTES = Path(__file__).resolve().parents[2] / "pastes"
REPORTS: list[tuple[str, str]] = [
    *((row["id"], row["paste"]) for name in ("open", "held", "second", "third") for row in json.loads((PASTES / "confirmed" / f"{name}.json").read_text())[::3]),
]  # fmt: skip


@pytest.fixture
def english_again() -> Iterator[None]:
    yield
    use_translations(None)


def _as_json(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: _as_json(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return english_document(value)


def _answers(language: str) -> dict[str, Any]:
    use_translations(translations(language))
    answers = {}
    for name, paste in REPORTS:
        diagnosis = diagnose(read_paste(paste))
        answers[name] = _as_json([diagnosis.verdict, diagnosis.findings])
    return answers


@pytest.mark.usefixtures("english_again")
def test_a_diagnosis_is_the_same_in_chinese() -> None:
    english = _answers("en")
    assert _answers("zh_CN") == english
