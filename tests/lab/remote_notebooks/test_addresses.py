"""Addresses of pages, and the addresses of the files behind them; without a network."""

from __future__ import annotations

import pytest

from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.lab.remote_notebooks.addresses import is_address, resolve

RAW = "https://raw.githubusercontent.com"
GIST = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://colab.research.google.com/github/o/r/blob/main/a/n.ipynb", f"{RAW}/o/r/main/a/n.ipynb"),
        ("https://colab.research.google.com/github/o/r/blob/main/n.ipynb?authuser=1#scrollTo=x", f"{RAW}/o/r/main/n.ipynb"),
        ("http://colab.sandbox.google.com/github/o/r/blob/v1/n.ipynb", f"{RAW}/o/r/v1/n.ipynb"),
        ("colab.research.google.com/github/o/r/blob/main/n.ipynb", f"{RAW}/o/r/main/n.ipynb"),
        (f"https://colab.research.google.com/gist/o/{GIST}", f"https://gist.github.com/o/{GIST}/raw"),
        (f"https://colab.research.google.com/gist/o/{GIST}/n.ipynb", f"https://gist.githubusercontent.com/o/{GIST}/raw/n.ipynb"),
        ("https://colab.research.google.com/#fileId=https%3A//huggingface.co/o/m.ipynb", "https://huggingface.co/o/m.ipynb"),
        ("https://github.com/o/r/blob/main/a%20b.ipynb", f"{RAW}/o/r/main/a%20b.ipynb"),
        ("https://github.com/o/r/blob/main/a b é.ipynb", f"{RAW}/o/r/main/a%20b%20%C3%A9.ipynb"),
        ("https://www.github.com/o/r/raw/refs/heads/x/y/n.ipynb?raw=true", f"{RAW}/o/r/refs/heads/x/y/n.ipynb"),
        ("https://githubtocolab.com/o/r/blob/main/n.ipynb", f"{RAW}/o/r/main/n.ipynb"),
        ("https://github.com/o/r/releases/download/1/n.ipynb", "https://github.com/o/r/releases/download/1/n.ipynb"),
        (f"{RAW}/o/r/main/n.ipynb?token=T", f"{RAW}/o/r/main/n.ipynb?token=T"),
        (f"https://gist.github.com/o/{GIST}#file-n-ipynb", f"https://gist.github.com/o/{GIST}/raw"),
        (f"https://gist.github.com/{GIST}", f"https://gist.github.com/{GIST}/raw"),
        (f"https://gist.github.com/o/{GIST}/raw/abc/n.ipynb", f"https://gist.github.com/o/{GIST}/raw/abc/n.ipynb"),
        ("https://huggingface.co/o/m/blob/main/n.ipynb", "https://huggingface.co/o/m/resolve/main/n.ipynb"),
        ("https://hf.co/o/m/raw/main/a/n.ipynb", "https://huggingface.co/o/m/resolve/main/a/n.ipynb"),
        ("https://huggingface.co/datasets/o/d/blob/main/n.ipynb", "https://huggingface.co/datasets/o/d/resolve/main/n.ipynb"),
        ("https://huggingface.co/gpt2/blob/main/n.ipynb", "https://huggingface.co/gpt2/resolve/main/n.ipynb"),
        ("https://huggingface.co/o/m/resolve/main/n.ipynb?download=true", "https://huggingface.co/o/m/resolve/main/n.ipynb"),
        ("https://nbviewer.org/github/o/r/blob/main/n.ipynb", f"{RAW}/o/r/main/n.ipynb"),
        (f"https://nbviewer.org/gist/o/{GIST}/n.ipynb", f"https://gist.githubusercontent.com/o/{GIST}/raw/n.ipynb"),
        ("https://nbviewer.jupyter.org/urls/example.org/a/n.ipynb", "https://example.org/a/n.ipynb"),
        ("https://nbviewer.org/url/example.org/n.ipynb", "http://example.org/n.ipynb"),
        ("https://nbviewer.org/urls/github.com/o/r/blob/main/n.ipynb", f"{RAW}/o/r/main/n.ipynb"),
        (" http://example.org:8000/n.ipynb?a=b&c=d#e ", "http://example.org:8000/n.ipynb?a=b&c=d"),
    ],
)  # fmt: skip
def test_the_file_behind_an_address(address: str, url: str) -> None:
    assert resolve(address).url == url
    assert is_address(address)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("https://colab.research.google.com/drive/1AbC_dEf", "Google Drive"),
        ("https://colab.research.google.com/#fileId=1AbC_dEf", "Google Drive"),
        ("https://drive.google.com/file/d/1AbC/view", "Google Drive"),
        ("https://colab.research.google.com/", "does not name a notebook"),
        ("https://colab.research.google.com/notebooks/intro.ipynb", "does not name a notebook"),
        ("https://colab.research.google.com/#fileId=https%3A//colab.research.google.com/", "does not name a notebook"),
        ("https://github.com/o/r", "a folder on GitHub"),
        ("https://github.com/o/r/tree/main/n", "a folder on GitHub"),
        ("https://github.com/o/r/blob/main", "a folder on GitHub"),
        ("https://gist.github.com/", "does not name a gist"),
        ("https://gist.github.com/someone", "does not name a gist"),
        ("https://huggingface.co/o/m/tree/main", "a folder on Hugging Face"),
        ("https://nbviewer.org/", "does not name a notebook"),
    ],
)
def test_an_address_without_a_file_is_explained_with_a_hint(address: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        resolve(address)
    assert refused.value.hint


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "ftp://example.org/n.ipynb",
        "data://x",
        "https://",
        "https://[bad/n",
        "https://h:99999/n.ipynb",
    ],
)
def test_other_schemes_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not a web address"):
        resolve(address)


def test_passmessage_are_neither_sent_nor_shown() -> None:
    with pytest.raises(OwnlabError) as refused:
        resolve("https://ann:geheim@example.org/n.ipynb")
    assert "geheim" not in refused.value.message


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://example.org/a%20b.ipynb", "a b.ipynb"),
        ("https://example.org/..%2F..%2Fn.ipynb", "../../n.ipynb"),  # safe_name makes a file name of it
        ("https://example.org/download?id=3", None),
        ("https://example.org/", None),
    ],
)
def test_the_file_name_in_an_address(address: str, name: str | None) -> None:
    assert resolve(address).name == name


@pytest.mark.parametrize("text", ["n.ipynb", "./github.com/n.ipynb", "/github.com/n", "a/b.ipynb", ""])
def test_paths_are_not_addresses(text: str) -> None:
    assert not is_address(text)
