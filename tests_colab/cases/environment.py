"""The environment of a notebook: folders, files, variables."""

from __future__ import annotations

from tests_colab.cases.case import Case, like

__all__ = ["CASES"]

CASES = (
    Case(
        "detection",
        texts={
            "styles": "[]\n",  # the ways that do not find it
            "from_google": "('google.colab', True)\n",
            "gpu": "0\n",
            "chosen": "'colab'\n",
            "not_tpu": "False\n",
            "child": "in a script too True\n",
            "module": "Writing detect.py\n",
            "imported": "True\n",
            "nothing_else": "No module named 'google.no_such_part'\n",
        },
    ),
    Case(
        "plain_try_import",
        texts={"1": "True\n", "2": "'/content/data'\n", "3": "pip install would be here\n"},
    ),
    Case("not_colab", texts={"0": "not on Colab\n(False, [], True)\n", "1": "True\n"}),
    Case(
        "gpu_check",
        texts={
            "card": like("no card: choose one under Runtime\n|a card\n"),
            "memory": "enough\n",
            "cores": "True\n",
            "visible": like(r"\('[0-3]', '1'\)\n|\('', '0'\)\n"),  # it asks for a card, where one is free
            "disk": "1\n",
            "python": "True\n",
        },
    ),
    Case(
        "google_services",
        texts={
            "auth": "not signed in\n",
            "bigquery": like(r"UsageError: %%bigquery needs a Google account [^\n]*pip install bigquery-magics\n"),
            "sheets": "Error\n",
            "ai": "RuntimeManagementError\n",
            "names": like(r"\['auth',\s+'autoviz',\s+'data_table',.*'widgets'\]\n"),
        },
    ),
    Case("old_metadata", parameters=("value=21",), texts={"first": "42\n", "hidden": "Hello, Ada!\n", "both": "0.5\n"}),
)
