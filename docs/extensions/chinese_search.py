"""Search in the Chinese site. Sphinx finds Chinese words with the help of jieba alone, and without it its page of results does not
work at all (9.0: "ChineseStemmer is not defined"). Here each pair of neighbouring characters is a word, in the index and in what is
searched for, which needs no dictionary.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

_CHINESE = re.compile(r"[\u3400-\u9fff]+")
_SPLIT_IN_PAGE = r"""
var splitQuery = (query) =>
  query
    .split(/[^\p{Letter}\p{Number}_]+/gu)
    .flatMap((word) => word.match(/[\u3400-\u9fff]+|[^\u3400-\u9fff]+/g) || [])
    .flatMap((part) =>
      part.length > 2 && /[\u3400-\u9fff]/.test(part)
        ? Array.from({ length: part.length - 1 }, (_, at) => part.slice(at, at + 2))
        : [part]
    );
"""


class ChineseSearch(SearchEnglish):
    """Pairs of Chinese characters, and English words between them."""

    lang = "zh_CN"
    js_splitter_code = _SPLIT_IN_PAGE

    def split(self, input: str) -> list[str]:  # noqa: A002 - Sphinx's name
        """Return the words of a text. Single characters are there for those who search for one."""
        words = super().split(_CHINESE.sub(" ", input))
        for run in _CHINESE.findall(input):
            words += [*run, *map("".join, pairwise(run))]
        return words


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_search_language(ChineseSearch)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
