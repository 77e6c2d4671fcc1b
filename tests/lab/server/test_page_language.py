"""The server speaks the language of the page that asks."""

from __future__ import annotations

import json

import msgspec
import pytest
from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPServerRequest, RequestStartLine

from ownlab import json_encoding
from ownlab.lab.server.page_language import accepted_language, page_catalogue, translation_for
from ownlab.languages import translations
from ownlab.text import text


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", "en"),
        ("en", "en"),
        ("zh-CN", "zh_CN"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh_CN"),
        ("en-US,en;q=0.9,zh-CN;q=0.8", "en"),
        ("fr, zh-CN;q=0.5, en;q=0.7", "en"),
        ("fr;q=1, zh-Hans;q=0.2", "zh_CN"),
        ("zh-TW, zh-CN;q=0.4", "zh_CN"),
        ("zh-CN;q=0", "en"),
        ("zh-CN;q=many, en", "en"),
        ("qps", "qps"),
        ("*", "en"),
        (",;=;q", "en"),
        ("x," * 100_000 + "zh-CN", "en"),
    ],
)
def test_accepted_language(header: str, expected: str) -> None:
    assert accepted_language(header) == expected


class _Connection(HTTPConnection):
    """Of a request that is never answered."""


def _request(uri: str, language: str) -> HTTPServerRequest:
    line = RequestStartLine("GET", uri, "HTTP/1.1")
    return HTTPServerRequest(
        start_line=line, headers=HTTPHeaders({"Host": "lab", "Accept-Language": language}), connection=_Connection()
    )


def test_a_websocket_states_its_language_in_the_query() -> None:
    assert translation_for(_request("/stream", "en")) is None
    translate = translation_for(_request("/stream?language=qps", "en"))
    assert translate is not None
    assert translate("{n} cards").startswith("⟦{n} ")
    assert translation_for(_request("/stream?language=en", "zh-CN")) is None
    assert translation_for(_request("/stream?language=%ff%fe", "zh-CN")) is None


def test_the_catalogue_of_the_page_by_locale() -> None:
    assert page_catalogue("en") == page_catalogue("de_DE") == page_catalogue("../../..") == {}
    assert "" not in page_catalogue("zh_CN")


def test_a_document_of_a_child_process_keeps_its_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_encoding, "_keeps_templates", True)
    found = text("{n} cards are free.", n=2)
    document = json_encoding.encode_shown_json(_Record(found, (text("Nothing to do."), "sudo reboot")))
    read: _Record = json_encoding.decode_guest_json(document, _Record)
    assert read == _Record("2 cards are free.", ("Nothing to do.", "sudo reboot"))
    pseudo = translations("qps")
    assert pseudo is not None
    shown = json.loads(json_encoding.encode_json(read, translate=pseudo))
    assert shown["sentence"] == pseudo("{n} cards are free.").format(n=2)
    assert shown["fix"] == [pseudo("Nothing to do."), "sudo reboot"]


class _Record(msgspec.Struct, frozen=True):
    sentence: str
    fix: tuple[str, ...]
