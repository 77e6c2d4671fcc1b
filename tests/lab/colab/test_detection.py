"""Which notebooks want a kernel like Colab's."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.lab.colab.detection import accelerator_of, gpu_type_of, lacks_colab, wants_colab


def of(*sources: str | list[str], metadata: object = None, kind: str = "code") -> dict[str, Any]:
    return {"cells": [{"cell_type": kind, "source": source} for source in sources], "metadata": metadata or {}}


@pytest.mark.parametrize(
    "source",
    [
        "import google.colab",
        "from google.colab import drive",
        "from google.colab.output import eval_js",
        "from google import colab",
        "from google import auth, colab as c",
        "from google import (\n  auth,\n  colab,\n)",
        "x = 1; from google import colab",
        "try:\n  import google.colab\n  IN_COLAB = True\nexcept ImportError: pass",
        "IN_COLAB = 'google.colab' in sys.modules",
        "if 'google.colab' in str(get_ipython()): pass  # a comment",
        "%load_ext google.colab.data_table",
        "#@title Setup\nfrom google.colab import files",
        "%%html\n<script>google.colab.kernel.invokeFunction('f', [])</script>",
        "url = 'http://x/#'; import google.colab",
    ],
)
def test_code_that_uses_colab(source: str) -> None:
    assert wants_colab(of("x = 1", source))
    assert wants_colab(of(source.splitlines(keepends=True)))


@pytest.mark.parametrize(
    "source",
    [
        "# from google.colab import drive",
        "x = 1  # google.colab has it too",
        "#@markdown Works with google.colab",
        "from google import auth  # and not colab",
        "from google import genai\nimport colab",
        "import mygoogle.colab",
        "import my.google.colab",
        "import google.colabx",
        "!pip install google-colab-selenium",
        "open_in('https://colab.research.google.com/github')",
        "",
    ],
)
def test_code_that_does_not_use_colab(source: str) -> None:
    assert not wants_colab(of(source))


def test_only_code_counts() -> None:
    assert not wants_colab(of("import google.colab", kind="markdown"))
    assert not wants_colab(of("import google.colab", kind="raw"))


@pytest.mark.parametrize("answer", [{}, {"provenance": []}, None])
def test_notebooks_saved_by_colab_are_detected(answer: object) -> None:
    assert wants_colab(of("x = 1", metadata={"colab": answer}))


def test_the_metadata_setting_wins() -> None:
    assert not wants_colab(of("import google.colab", metadata={"colab": {}, "ownlab": {"colab": False}}))
    assert wants_colab(of("x = 1", metadata={"ownlab": {"colab": True}}))
    assert not wants_colab(of("x = 1", metadata={"ownlab": {"colab": "yes"}}))


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"cells": None, "metadata": None},
        {"cells": {"a": 1}, "metadata": []},
        {
            "cells": [None, 1, {}, {"cell_type": "code"}, {"cell_type": "code", "source": [1]}],
            "metadata": {"ownlab": 3},
        },
    ],
)
def test_damaged_notebooks_request_nothing(damaged: dict[str, Any]) -> None:
    assert not wants_colab(damaged)
    assert accelerator_of(damaged) is None
    assert gpu_type_of(damaged) is None


@pytest.mark.parametrize(
    ("metadata", "accelerator", "card"),
    [
        ({"accelerator": "GPU", "colab": {"gpuType": "T4"}}, "GPU", "T4"),
        ({"accelerator": "GPU"}, "GPU", None),
        ({"accelerator": "TPU", "colab": {"gpuType": "V28"}}, "TPU", "V28"),
        ({"accelerator": "None"}, None, None),
        ({"accelerator": "", "colab": {"gpuType": ""}}, None, None),
        ({"accelerator": 3, "colab": {"gpuType": []}}, None, None),
        ({"accelerator": "GPU", "colab": {"gpuType": "T4\x1b[2J"}}, "GPU", None),
        ({"accelerator": "GPU", "colab": {"gpuType": "RTX 6000 " * 9}}, "GPU", None),
        ({"colab": {}}, None, None),
    ],
)
def test_the_requested_accelerator(metadata: dict[str, Any], accelerator: str | None, card: str | None) -> None:
    assert (accelerator_of(of(metadata=metadata)), gpu_type_of(of(metadata=metadata))) == (accelerator, card)


def test_errors_of_a_missing_google_colab() -> None:
    line = "\x1b[0;32m----> 1\x1b[0m \x1b[38;5;28;01mfrom\x1b[39;00m google\x1b[38;5;241m.\x1b[39mcolab import drive"
    assert lacks_colab("ModuleNotFoundError", "No module named 'google.colab'", [])
    assert lacks_colab("ModuleNotFoundError", "No module named 'google.colab.patches'", [])
    assert lacks_colab("ImportError", "cannot import name 'colab' from 'google' (unknown location)", [])
    assert lacks_colab("ModuleNotFoundError", "No module named 'google'", [line])
    assert not lacks_colab("ModuleNotFoundError", "No module named 'google'", ["import google.protobuf"])
    assert not lacks_colab("ModuleNotFoundError", "No module named 'google.colaboratory'", [])
    assert not lacks_colab("ValueError", "No module named 'google.colab'", [line])
