"""google.colab.userdata over the store of secrets: granted, asked for, refused, and never shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.guest.colab.page import Page, open_page

GET = "from google.colab import userdata\n"
VALUE = "s3cret-välue"


@dataclass
class Vault:
    """A store of its own, and the kernel of one notebook that reads it."""

    page: Page
    notebook: Path
    environ: dict[str, str]

    def ownlab(self, *arguments: str, typed: str = "") -> None:
        command = [sys.executable, "-m", "ownlab", "secrets", *arguments]
        subprocess.run(command, env=self.environ, input=typed, text=True, check=True, timeout=300, capture_output=True)

    def grant(self, name: str) -> None:
        self.ownlab("grant", name, str(self.notebook))


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    folder = tmp_path_factory.mktemp("vault")
    notebook = folder / "notebook.ipynb"
    notebook.write_text("{}")
    (folder / "json.py").write_text("raise SystemExit('a file of the notebook is taken for a library')")
    places = {"OWNLAB_HOME": str(folder / "home"), "OWNLAB_CONFIG": str(folder / "config.toml"), "HOME": str(folder)}
    more = {"OWNLAB_HOST": sys.executable, "JPY_SESSION_NAME": str(notebook), "IN_ENVIRONMENT": "from outside"}
    kernel = folder / "kernel"
    kernel.mkdir()
    with open_page(kernel, {**places, **more}) as page:
        page.result(f"import os; os.chdir({str(folder)!r})")
        made = Vault(page, notebook, {**os.environ, **places})
        made.ownlab("set", "TOKEN", typed=VALUE)
        made.ownlab("set", "OTHER", typed="other")
        made.grant("TOKEN")
        yield made


def test_a_granted_secret_is_read_in_the_page_and_without_one(vault: Vault) -> None:
    code = GET + f"print(userdata.get('TOKEN') == {VALUE!r})"
    ran = vault.page.run(code)
    assert (ran.text, ran.requests, ran.error) == ("True\n", [], "")
    assert vault.page.headless(code).text == "True\n"


def test_a_secret_without_grant_is_requested_once(vault: Vault) -> None:
    vault.ownlab("set", "ASKED", typed=VALUE)

    def agree(body: dict[str, Any]) -> dict[str, Any]:
        assert body == {"key": "ASKED", "notebook": str(vault.notebook)}
        vault.grant("ASKED")
        return {"data": {"granted": True}}

    ran = vault.page.run(
        GET + f"print([userdata.get('ASKED') == {VALUE!r} for _ in range(2)])", {"ownlab_grant": agree}
    )
    assert (ran.text, len(ran.requests), ran.error) == ("[True, True]\n", 1, "")


def test_a_declined_grant_is_respected(vault: Vault) -> None:
    refused = {"ownlab_grant": lambda body: {"data": {"granted": False}}}
    ran = vault.page.run(GET + "userdata.get('OTHER')", refused)
    assert ran.error.startswith("NotebookAccessError: Notebook does not have access to secret OTHER")


def test_a_page_that_claims_a_grant_gets_nothing(vault: Vault) -> None:
    forged = {"ownlab_grant": lambda body: {"data": {"granted": True}}}
    assert vault.page.run(GET + "userdata.get('OTHER')", forged).error.startswith("NotebookAccessError")


def test_without_a_page_nothing_is_asked(vault: Vault) -> None:
    ran = vault.page.headless(GET + "userdata.get('OTHER')")
    assert ran.error.startswith("NotebookAccessError")
    assert ran.requests == []


def test_a_missing_page_is_a_timeout(vault: Vault) -> None:
    code = (
        GET
        + "from google.colab import _message\n_message.ACK_SECONDS = 0.2\ntry: userdata.get('OTHER')\nfinally: _message.ACK_SECONDS = 10"
    )
    ran = vault.page.run(code, is_there=False)
    assert (
        ran.error
        == "TimeoutException: Requesting secret OTHER timed out: this notebook is not open in a page of ownlab."
    )


@pytest.mark.parametrize("key", ["MISSING", "--help", "../TOKEN", "a/b"])
def test_missing_files_are_an_error(vault: Vault, key: str) -> None:
    assert vault.page.run(GET + f"userdata.get({key!r})").error.startswith(
        f"SecretNotFoundError: Secret {key} does not"
    )


def test_an_environment_variable_is_the_fallback_for_a_missing_secret(vault: Vault) -> None:
    assert vault.page.headless(GET + "print(userdata.get('IN_ENVIRONMENT'))").text == "from outside\n"
    assert (
        vault.page.headless("import os; os.environ['TOKEN'] = 'x'\n" + GET + "print(userdata.get('TOKEN') == 'x')").text
        == "False\n"
    )
    vault.page.headless("del os.environ['TOKEN']")


@pytest.mark.parametrize("key", ["''", "None", "3"])
def test_a_name_must_be_text(vault: Vault, key: str) -> None:
    assert vault.page.run(GET + f"userdata.get({key})").error == "ValueError: Please enter a valid secret name"


def test_a_name_has_no_spaces(vault: Vault) -> None:
    assert vault.page.run(GET + "userdata.get('a b')").error.startswith("ValueError: Secret name cannot contain spaces")


def test_libraries_find_the_errors_that_they_catch(vault: Vault) -> None:
    code = """
from google.colab import errors, userdata
print(issubclass(userdata.SecretNotFoundError, errors.Error), issubclass(userdata.TimeoutException, errors.Error),
      issubclass(userdata.NotebookAccessError, errors.Error))
"""
    assert vault.page.result(code) == "True True False\n"


def test_threads_read_at_once(vault: Vault) -> None:
    code = (
        GET
        + f"""
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(3) as pool: print(set(pool.map(userdata.get, ['TOKEN'] * 3)) == {{{VALUE!r}}})
"""
    )
    assert vault.page.result(code) == "True\n"


def test_no_value_is_in_a_traceback_however_long_it_is(vault: Vault) -> None:
    vault.ownlab("set", "BROKEN", typed=VALUE)
    code = "%xmode Verbose\n" + GET + "userdata.get('BROKEN')"
    parts: list[str] = []
    request = vault.page.client.execute(code, allow_stdin=False)
    while True:
        message = vault.page.client.get_iopub_msg(timeout=300)
        if message["parent_header"].get("msg_id") != request:
            continue
        parts.append(str(message["content"]))
        if message["content"].get("execution_state") == "idle":
            break
    vault.page.headless("%xmode Context")
    assert "NotebookAccessError" in "".join(parts)
    assert VALUE not in "".join(parts)


def test_a_host_that_cannot_be_started_is_an_error(vault: Vault) -> None:
    code = (
        GET
        + "import os\nhost = os.environ['OWNLAB_HOST']; os.environ['OWNLAB_HOST'] = '/no/python'\ntry: userdata.get('TOKEN')\nfinally: os.environ['OWNLAB_HOST'] = host"
    )
    assert "could not be started" in vault.page.headless(code).error
