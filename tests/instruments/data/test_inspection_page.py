"""The contact sheet as HTML: what it shows, and that names in a data set cannot become part of the page."""

from __future__ import annotations

from html.parser import HTMLParser

from msgspec.structs import replace

from ownlab.instruments.data.inspection.html_page import inspection_fragment, inspection_page
from ownlab.instruments.data.inspection.records import (
    BrokenFile,
    Column,
    DataClass,
    FileKind,
    Illustrated,
    ImageSize,
    Thumbnail,
)

HOSTILE = "\"><script>alert('1')</script>"
FOUND = Illustrated(
    path="/data/train.zip",
    kind="files",
    files=1300,
    bytes=5_000_000,
    kinds=(FileKind("jpg", 1300, 5_000_000, 10, 9000),),
    classes=tuple(DataClass(f"class{number}", 200 - number) for number in range(14)),
    image_sizes=(ImageSize(640, 480, 1200),),
    image_size_count=3,
    images_checked=True,
    broken=(),
    broken_count=0,
    duplicates=(),
    duplicate_count=0,
    left_out=0,
    columns=(),
    seconds=1.0,
    thumbnails=(Thumbnail("cat/1.jpg", "cat", 640, 480, "/9j/"),),
)


class Page(HTMLParser):
    """The elements of a page; fails on those that were not closed."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.texts: list[str] = []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_what_it_shows() -> None:
    page = Page(inspection_page(FOUND))
    content = "\n".join(page.texts)
    for expected in (
        "1,300 files",
        "3 image sizes",
        "most often 640×480 (1,200)",
        "14 classes",
        "class11",
        "… and 2 more, down to 187",
        "No file is broken, and none is there twice.",
    ):
        assert expected in content
    assert page.seen.count("img") == 1
    assert "class12" not in content


def test_problems_come_first() -> None:
    wrong = replace(
        FOUND,
        broken=(BrokenFile("cat/2.jpg", "it is empty"),),
        broken_count=1,
        duplicates=("a", "b"),
        duplicate_count=2,
        columns=(Column("age", "integer", 10),),
    )
    content = "\n".join(Page(inspection_fragment(wrong)).texts)
    assert (
        content.index("One file is broken")
        < content.index("2 files are copies of others")
        < content.index("14 classes")
    )
    assert "cat/2.jpg: it is empty" in content
    assert "age" in content
    without = inspection_fragment(replace(FOUND, images_checked=False))
    assert "Images were not decoded" in without


def test_names_are_text() -> None:
    hostile = replace(
        FOUND,
        path=HOSTILE,
        kinds=(FileKind(HOSTILE, 1, 1, 1, 1),),
        classes=(DataClass(HOSTILE, 1),),
        broken=(BrokenFile(HOSTILE, HOSTILE),),
        broken_count=1,
        duplicates=(HOSTILE,),
        duplicate_count=1,
        columns=(Column(HOSTILE, HOSTILE, 1),),
        thumbnails=(Thumbnail(HOSTILE, HOSTILE, 1, 1, HOSTILE), Thumbnail(HOSTILE, "", 1, 1, "")),
    )
    for content in (inspection_page(hostile), inspection_fragment(hostile)):
        assert "script" not in Page(content).seen
        assert "<script" not in content
