"""The page's own code for fields, run in node: it displays and writes values, and moves positions, as the server does."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ownlab.json_encoding import encode_json
from ownlab.lab.forms.grammar import Form, parse_form
from ownlab.lab.server.forms import in_utf16

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "tests" / "golden" / "forms" / "values.json"

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (ROOT / "labextension/node_modules/typescript").exists(),
        reason="labextension/node_modules is not installed",
    ),
]

SOURCE = """\
#@title 😀 Places { run: "auto" }
first = "ä😀b" #@param {type:"string"}
first = "again" #@param {type:"string"}
empty = #@param {type:"string"}
if first:
    inner = [1, 2]#@param {type:"raw"}
flag = True #@param {type:"boolean"}
pick = 'a' # @param ["a", "😀"]
#@markdown words 😀
rate = 0.5 #@param {type:"slider", min:0, max:1, step:0.1}"""
# In the order of the fields: sources that replace the value.
WRITTEN = [
    ('"ä😁b"', '""', '"ä😀bc😀"'),
    ('"ag"',),
    ('"x"',),
    ("[1, 2, 3]", "None"),
    ("False",),
    ("'😀'",),
    ("0.7",),
]


def in_node(*, values: Sequence[Any] = (), writes: Sequence[Any] = ()) -> dict[str, list[Any]]:
    """Return the results of the page's functions for rows of the table, and for written fields."""
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("page.mjs")), str(ROOT / "labextension")],
        input=json.dumps({"values": list(values), "writes": list(writes)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, list[Any]] = json.loads(done.stdout)
    return answers


def as_the_page_gets_it(source: str) -> dict[str, Any]:
    form = parse_form(source)
    assert isinstance(form, Form)
    document: dict[str, Any] = json.loads(encode_json(in_utf16(source, form)))
    return document


def test_values_are_shown_and_written_as_the_table_says() -> None:
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    assert in_node(values=rows)["values"] == [{"shown": row["shown"], "text": row["text"]} for row in rows]


def test_a_field_that_is_written_leaves_what_the_server_would_read() -> None:
    form = as_the_page_gets_it(SOURCE)
    fields = [part for part in form["parts"] if part["part"] == "field"]
    assert len(fields) == len(WRITTEN)
    steps: list[dict[str, Any]] = [
        {"source": SOURCE, "form": form, "field": number, "text": text}
        for number, texts in enumerate(WRITTEN)
        for text in texts
    ]
    for step, result in zip(steps, in_node(writes=steps)["writes"], strict=True):
        field = fields[step["field"]]
        units = SOURCE.encode("utf-16-le")
        made = units[: 2 * field["start"]] + step["text"].encode("utf-16-le") + units[2 * field["end"] :]
        assert result["made"] == result["edited"] == made.decode("utf-16-le")
        assert result["form"] == as_the_page_gets_it(result["made"])
