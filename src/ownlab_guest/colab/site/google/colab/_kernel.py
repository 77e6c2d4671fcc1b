"""The kernel of Colab mode."""

from typing import Any, Dict

from ipykernel.ipkernel import IPythonKernel

from . import _message, _shell

__all__ = ["ColabKernel"]


class ColabKernel(IPythonKernel):
    """IPython's kernel with Colab's shell. A page's answer to google.colab is never taken for input()."""

    shell_class = _shell.Shell

    def _input_request(self, prompt: str, ident: Any, parent: Dict[str, Any], password: bool = False) -> str:
        """Called by input and getpass; the name in ipykernel 6 and 7."""
        return _message.ask_person(self, {"prompt": str(prompt), "password": password}, ident, parent)
